"""Giveway from Python: the same verbs as on the command line, for notebooks, Airflow, Celery.

from app.client import Giveway

with Giveway() as giveway:
    job = giveway.submit("embed", "docs.jsonl", model="fake-embed", collection="docs")
    print(job.wait().progress.done)
"""

from app.client.awaiting import AsyncGiveway, AsyncJobHandle
from app.client.collections import Collections
from app.client.giveway import Giveway
from app.client.jobs import JobHandle, Standing
from app.client.operations import Endpoints, Throttle
from app.client.people import Answer
from app.client.schedules import Schedules
from app.client.sources import Source

__all__ = [
    "Answer",
    "AsyncGiveway",
    "AsyncJobHandle",
    "Collections",
    "Endpoints",
    "Giveway",
    "JobHandle",
    "Schedules",
    "Source",
    "Standing",
    "Throttle",
]

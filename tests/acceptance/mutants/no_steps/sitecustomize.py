"""A mutant: workers store no step of an item of several steps, and think that they have.

Python imports `sitecustomize` at start where it stands on PYTHONPATH.
"""

import sys

if any("celery" in argument for argument in sys.orig_argv):
    from app.storage.step_store import StepStore

    StepStore.record = lambda *_: True

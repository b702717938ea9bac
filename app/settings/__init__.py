"""Settings: what people write in giveway.toml and in the environment, checked."""

from app.settings.batch import BatchSettings
from app.settings.endpoints import EndpointSettings
from app.settings.interactive import InteractiveSettings
from app.settings.load import load, settings_files
from app.settings.model import Settings
from app.settings.pools import PoolSettings, ThrottleSettings
from app.settings.processes import (
    BrokerSettings,
    DatabaseSettings,
    FlowerSettings,
    WorkerSettings,
)
from app.settings.scaling import ScalingSettings

__all__ = [
    "BatchSettings",
    "BrokerSettings",
    "DatabaseSettings",
    "EndpointSettings",
    "FlowerSettings",
    "InteractiveSettings",
    "PoolSettings",
    "ScalingSettings",
    "Settings",
    "ThrottleSettings",
    "WorkerSettings",
    "load",
    "settings_files",
]

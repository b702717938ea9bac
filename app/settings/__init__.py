"""Settings: what people write in giveway.toml and in the environment, checked."""

from app.settings.load import load, settings_files
from app.settings.model import (
    BatchSettings,
    BrokerSettings,
    DatabaseSettings,
    EndpointSettings,
    FlowerSettings,
    InteractiveSettings,
    PoolSettings,
    ScalingSettings,
    Settings,
    ThrottleSettings,
    WorkerSettings,
)

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

"""The engines that commands which measure can start themselves."""

from enum import StrEnum


class Engine(StrEnum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"
    REDIS = "redis"

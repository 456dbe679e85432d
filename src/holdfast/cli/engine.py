"""The engines that benchmark commands can start."""

from enum import StrEnum


class Engine(StrEnum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"
    REDIS = "redis"

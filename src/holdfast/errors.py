"""What can go wrong, as one tree. Answers such as "sold out" are verdicts, not errors.

HoldfastError
├── SettingsError          the settings or the way a command was called are wrong; the message says what to do
│   └── AlreadyRunning     another server owns this SQLite file
└── EngineError            the engine did not give a verdict; every one of these may be retried
    ├── Busy               the line is full, or the command waited too long: it was never decided
    ├── Unavailable        the engine could not be reached or refused: nothing was changed
    │   └── LedgerWentBack the ledger lacks what it had: nothing is written until a person has decided
    └── OutcomeUnknown     the commit was sent and its answer lost: it may or may not have happened

An engine error may name its cause, for health checks and operators.
"""

from enum import StrEnum


class Cause(StrEnum):
    STORE_READ_ONLY = "store_read_only"
    DISK_FULL = "disk_full"
    FILE_REPLACED = "file_replaced"
    LOCK_TIMEOUT = "lock_timeout"
    CONNECTIONS_IN_USE = "connections_in_use"
    STORE_UNREACHABLE = "store_unreachable"
    MEMORY_FULL = "memory_full"
    REPLICAS_MISSING = "replicas_missing"


class HoldfastError(Exception):
    pass


class SettingsError(HoldfastError):
    pass


class AlreadyRunning(SettingsError):
    pass


class EngineError(HoldfastError):
    def __init__(self, message: str = "", cause: Cause | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class Busy(EngineError):
    pass


class Unavailable(EngineError):
    pass


class LedgerWentBack(Unavailable):
    pass


class OutcomeUnknown(EngineError):
    pass

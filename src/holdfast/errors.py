"""What can go wrong, as one tree. Answers such as "sold out" are verdicts, not errors.

HoldfastError
├── SettingsError          the settings or the way a command was called are wrong; the message says what to do
│   └── AlreadyRunning     another server owns this SQLite file
└── EngineError            the engine did not give a verdict; every one of these may be retried
    ├── Busy               the line is full, or the command waited too long: it was never decided
    ├── Unavailable        the engine could not be reached or refused: nothing was changed
    └── OutcomeUnknown     the commit was sent and its answer lost: it may or may not have happened
"""


class HoldfastError(Exception):
    pass


class SettingsError(HoldfastError):
    pass


class AlreadyRunning(SettingsError):
    pass


class EngineError(HoldfastError):
    pass


class Busy(EngineError):
    pass


class Unavailable(EngineError):
    pass


class OutcomeUnknown(EngineError):
    pass

"""Refuses writes to a ledger that went back (`ledger/mark/`).

Every connection is checked before its first use. After a failover all connections are new, so no write reaches a
promoted server that lacks what this process has seen.
"""

from collections.abc import Callable

from sqlalchemy import Connection

from holdfast.errors import LedgerWentBack

_REMEDY = "Nothing is written until an operator has run `holdfast recover`."
_COMPARED = "holdfast_compared"


class LedgerGuard:
    def __init__(self) -> None:
        # What the ledger lacks. Writes are refused unless this is None.
        self.finding: str | None = None
        # How often an operator has decided how to recover. Each decision invalidates what was known of the ledger
        # before.
        self.recoveries = 0
        # Sets `finding` if the ledger behind this connection went back.
        self.compare: Callable[[Connection], None] | None = None

    def ensure_open(self) -> None:
        if self.finding is not None:
            raise LedgerWentBack(f"The ledger went back: {self.finding}. {_REMEDY}")

    def check(self, connection: Connection) -> None:
        """Check the ledger behind a new connection."""
        if self.compare is None or _COMPARED in connection.info:
            return
        self.compare(connection)
        if self.finding is None:
            connection.info[_COMPARED] = True

"""The outages that this process observed, with start and end. Reads no clock and does no I/O.

The model. Once a second it is told which checks fail. A check that passed before and fails begins an outage, and one
that has not failed for `GAP_MS` is over. What has gone on is due for writing every `WRITE_MS`, and once at its end, so
an outage costs a row and a write now and then, however long it is; one that flaps is one.

What it leaves out. A check that never passed: the process may have started before the others. What follows from
something else: without its store no role works, so only the store is named.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from holdfast.ledger.events.outages import GAP_MS, Outage

# Of several roles of background work that fail together.
BACKGROUND = "background"
# Requests were refused because there was no room for them.
OVERLOAD = "overload"
BUSY = "busy"
# A single late heartbeat is no outage.
LEAST_MS = 2_000
WRITE_MS = 10_000


class OutageLog:
    def __init__(self, stores: Collection[str], roles: Collection[str]) -> None:
        self._stores, self._roles = stores, roles
        self._passed: set[str] = set()
        self._open: dict[str, Outage] = {}
        self._written_at: dict[str, int] = {}
        self._refused: int | None = None
        self._due: dict[tuple[str, int], Outage] = {}

    def watch(self, checks: Mapping[str, str | None], refused: int, now: int) -> None:
        """`checks` have the reason of those that fail; `refused` is how many requests were until now."""
        failing = {name: reason for name, reason in checks.items() if reason is not None and name in self._passed}
        self._passed |= {name for name, reason in checks.items() if reason is None}
        for subject, reason in self._subjects(failing).items():
            self._note(subject, reason, 0, now)
        more, self._refused = refused - (refused if self._refused is None else self._refused), refused
        if more:
            self._note(OVERLOAD, BUSY, more, now)
        for subject, outage in list(self._open.items()):
            self._write_if_due(subject, outage, now)

    def take_due(self) -> list[Outage]:
        """What is to be written. It stays due until `wrote` says that it was."""
        return list(self._due.values())

    def wrote(self, taken: Collection[Outage]) -> None:
        for one in taken:
            if self._due.get((one.subject, one.began_at)) == one:
                del self._due[one.subject, one.began_at]

    def _subjects(self, failing: Mapping[str, str]) -> dict[str, str]:
        others = {name: reason for name, reason in failing.items() if name not in self._roles}
        roles = sorted(name for name in failing if name in self._roles)
        if not roles or others.keys() & self._stores:
            return others
        return others | {BACKGROUND: f"{', '.join(roles)}: {failing[roles[0]]}"}

    def _note(self, subject: str, reason: str, refused: int, now: int) -> None:
        known = self._open.get(subject) or Outage(subject, now, now, reason)
        self._open[subject] = replace(known, last_at=now, refused=known.refused + refused)

    def _write_if_due(self, subject: str, outage: Outage, now: int) -> None:
        is_over = now - outage.last_at >= GAP_MS
        if is_over:
            del self._open[subject]
        is_long = subject == OVERLOAD or outage.last_at - outage.began_at >= LEAST_MS
        if is_long and (is_over or now - self._written_at.get(subject, now - WRITE_MS) >= WRITE_MS):
            self._due[subject, outage.began_at] = outage
            self._written_at[subject] = now
        if is_over:
            self._written_at.pop(subject, None)

"""The columns that are stored with failed work until its next attempt."""

import msgspec

from holdfast.runtime.backoff import exponential_ms

# Most failures are brief, so the first retry comes soon.
FIRST_RETRY_MS = 200
LONGEST_RETRY_MS = 60_000
HISTORY_MAX = 20
ERROR_MAX = 500


def deferred(history: str | None, step: str, error: str, attempts: int, now: int) -> dict[str, object]:
    """The columns to write; `history` is the row's previous history."""
    return {
        "attempts": attempts,
        "due_at": now + exponential_ms(attempts, FIRST_RETRY_MS, LONGEST_RETRY_MS),
        "leased_until": 0,
        "reason": error[:ERROR_MAX],
        "history": extended(history, step, error, now),
    }


def extended(history: str | None, step: str, error: str, now: int) -> str:
    entries = [*msgspec.json.decode(history or "[]"), {"at": now, "step": step, "error": error[:ERROR_MAX]}]
    return msgspec.json.encode(entries[-HISTORY_MAX:]).decode()

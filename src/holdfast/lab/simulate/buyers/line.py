"""A buyer in the waiting room: joins, waits, leaves, does not show up or gets a pass; and every response they got."""

import asyncio
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct, json

from holdfast.lab.simulate.buyers.asking import Handle
from holdfast.lab.simulate.buyers.http import OverHttp

# At one poll per second, longer than every pass, hold and lease of a run together.
POLLS_MAX = 60
POLL_S = 1.0
JOINS_MAX = 12


class Stood(Struct, frozen=True):
    """One response of the room: place, stamp, wait, pass or left; or the reason of a refusal, or how the request
    failed."""

    buyer_id: str
    what: str
    answer: str
    asked_s: float
    at_s: float
    arrival: int | None = None
    ticket_id: str | None = None


# Sends a request; returns the result (or None), the failure if any, and when it was sent and answered.
Ask = Callable[[Handle], Awaitable[tuple[Any, str, float, float]]]


class Line:
    def __init__(self, buyer_id: str, behaviour: str, ask: Ask, stood: list[Stood]) -> None:
        self._buyer_id, self._behaviour, self._ask, self._stood = buyer_id, behaviour, ask, stood
        self._asking = OverHttp()

    async def wait_for_pass(self) -> str | None:
        """Returns None if the buyer gets no pass or does not want one."""
        ticket = await self._join()
        if ticket is None or self._behaviour == "no_show":
            return None
        if self._behaviour in ("leave", "rejoin"):
            await asyncio.sleep(POLL_S / 2)
            await self._leave(ticket)
            ticket = await self._join() if self._behaviour == "rejoin" else None
        given = None if ticket is None else await self._admitted(ticket)
        if given is not None and ticket is not None and self._behaviour == "leave_with_pass":
            await self._leave(ticket)
            return None
        return given

    async def _join(self) -> str | None:
        for _ in range(JOINS_MAX):
            found = await self._said("join", self._asking.join(self._buyer_id))
            if isinstance(found, dict):
                return str(found["ticket"])
            if isinstance(found, str):
                return None
            await asyncio.sleep(POLL_S / 2)
        return None

    async def _leave(self, ticket: str) -> None:
        for _ in range(JOINS_MAX):
            if await self._said("leave", self._asking.leave(self._buyer_id, ticket), ticket) is not None:
                return
            await asyncio.sleep(POLL_S / 2)

    async def _admitted(self, ticket: str) -> str | None:
        for _ in range(POLLS_MAX):
            found = await self._said("admit", self._asking.admit(self._buyer_id, ticket), ticket)
            if isinstance(found, dict) and "pass" in found:
                return str(found["pass"])
            if isinstance(found, str):
                return None
            await asyncio.sleep(POLL_S)
        return None

    async def _said(self, what: str, handle: Handle, ticket: str | None = None) -> Any:
        """Returns the document, the reason of a refusal, or None if there was no response."""
        found, failure, asked_s, at_s = await self._ask(handle)
        answer = failure or (found if isinstance(found, str) else _ANSWERS[what](found))
        if isinstance(found, dict) and "ticket" in found:
            ticket = found["ticket"]
        claims = {} if ticket is None else _claims(ticket)
        self._stood.append(Stood(self._buyer_id, what, answer, asked_s, at_s, claims.get("arrival"), claims.get("jti")))
        return found


_ANSWERS: dict[str, Callable[[dict[str, Any]], str]] = {
    # A stamp records the arrival when the store could not; the place is derived from it later.
    "join": lambda found: "stamp" if found["provisional"] else "place",
    "leave": lambda _: "left",
    "admit": lambda found: "pass" if "pass" in found else "wait",
}


def _claims(ticket: str) -> dict[str, Any]:
    payload = ticket.split(".")[1]
    claims: dict[str, Any] = json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims

"""Challenges for whoever wants to join, and what their solutions are worth at the door."""

import msgspec

from holdfast.bootstrap import House
from holdfast.domain.pool import is_sku_id
from holdfast.domain.sale import Sale
from holdfast.http.fast_lane import identify
from holdfast.http.problems import Problem
from holdfast.http.requests import Answer, Request
from holdfast.http.sale_problems import sale_not_found
from holdfast.room.challenge import Entry

# One challenge is for one visitor.
_HEADERS = [("content-type", "application/json"), ("cache-control", "no-store")]


class ChallengeDesk:
    def __init__(self, house: House) -> None:
        self._house = house

    async def challenge(self, request: Request, sale_id: str) -> Answer:
        """Public. With a buyer's token the challenge is theirs alone; 204 where the sale asks for none."""
        house, buyer_id = self._house, None
        if request.authorization is not None:
            buyer_id = (await identify(house, request.authorization)).buyer_id
        sale = await house.catalogue.find(sale_id) if is_sku_id(sale_id) else None
        if sale is None:
            raise sale_not_found()
        if sale.proof_of_work is None:
            return Answer(204, [("cache-control", "no-store")], b"")
        return Answer(200, [*_HEADERS], msgspec.json.encode(await house.door.challenges.make(sale, buyer_id)))


async def check_entry(house: House, sale: Sale, buyer_id: str, proof: str | None, request: Request) -> Entry:
    """Asked by the join, before it gives a place. Raises the refusal; else the proof, if one was needed, is spent.

    `REPEATED` means that this buyer spent this proof before: whoever has a place keeps it, whoever left it needs
    another proof (`refuse_entry(Entry.SPENT)`).
    """
    house.door.places.check(sale.sale_id, request)
    entry = await house.door.challenges.check(sale, buyer_id, proof)
    if entry not in (Entry.NOT_ASKED, Entry.REPEATED, Entry.ADMITTED):
        raise refuse_entry(entry)
    return entry


_REFUSALS = {
    Entry.MISSING: ("proof_required", "Proof required", "This sale asks for proof of work: solve a challenge first."),
    Entry.INVALID: ("proof_invalid", "Proof not valid", "This is not the solution of a challenge that was made here."),
    Entry.EXPIRED: ("proof_expired", "Proof expired", "The challenge is too old. Solve a new one."),
    Entry.FOREIGN: ("proof_invalid", "Proof not valid", "The challenge was made for another sale or another buyer."),
    Entry.SPENT: ("proof_spent", "Proof spent", "This proof was used before. Solve a new challenge."),
}


def refuse_entry(entry: Entry) -> Problem:
    return Problem(403, *_REFUSALS[entry])


def proof_problems() -> list[Problem]:
    return [refuse_entry(entry) for entry in _REFUSALS]

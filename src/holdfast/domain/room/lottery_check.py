"""Verifies a published draw, and a ticket that took part in it."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast.domain.room.lottery import Draw, Order, beacon_of, digest_of, entry_of, seed_hash


class Published(Struct, frozen=True):
    """The draw as `now` returns it after opening. `entries` is the published list, if available."""

    draw: Draw
    seed_hash: str
    entries: Sequence[str] | None = None
    # The name of the public value, announced beforehand, and the value itself.
    beacon_source: str | None = None
    beacon_value: str | None = None


class Ticket(Struct, frozen=True):
    """The claims of a ticket. `number` is the line of its entry in the list, from 0. `position` counts from 1 and is
    None before opening."""

    number: int
    position: int | None = None
    sale_id: str | None = None
    buyer_id: str | None = None
    ticket_id: str | None = None
    # The commitment at the time of signing, so that it cannot be changed afterwards.
    seed_hash: str | None = None
    beacon_source: str | None = None


class Check(Struct, frozen=True):
    name: str
    ok: bool
    detail: str


def checks_of(published: Published, ticket: Ticket) -> list[Check]:
    """All checks that the available data allows, in order of dependency."""
    draw = published.draw
    found = [_same("seed", "the seed's hash", seed_hash(draw.seed), published.seed_hash)]
    if ticket.seed_hash is not None:
        found.append(_same("commitment", "the hash at joining", ticket.seed_hash, published.seed_hash))
        if ticket.beacon_source is not None or published.beacon_source is not None:
            source = ("beacon_source", "the public value named at joining")
            found.append(_same(*source, ticket.beacon_source, published.beacon_source))
    if draw.beacon or published.beacon_source is not None:
        computed = beacon_of(draw.digest, published.beacon_value or "")
        found.append(_same("beacon", "the beacon", computed, draw.beacon))
    if ticket.sale_id is not None:
        found.append(_same("sale", "the sale", ticket.sale_id, draw.sale_id))
    if published.entries is not None:
        found.extend(_list_checks(draw, published.entries, ticket))
    if ticket.position is not None:
        found.append(_same("position", "the position", Order(draw).place_of(ticket.number) + 1, ticket.position))
    return found


def _list_checks(draw: Draw, entries: Sequence[str], ticket: Ticket) -> list[Check]:
    found = [
        _same("entrants", "the length of the list", len(entries), draw.entrants),
        _same("digest", "the list's digest", digest_of(entries), draw.digest),
    ]
    if ticket.buyer_id is not None and ticket.ticket_id is not None and ticket.number < len(entries):
        ours = entry_of(draw.sale_id, ticket.buyer_id, ticket.ticket_id)
        found.append(_same("entry", f"line {ticket.number + 1} of the list", ours, entries[ticket.number]))
    return found


def _same(name: str, what: str, ours: object, published: object) -> Check:
    if ours == published:
        return Check(name, True, f"{what} is {ours}")
    return Check(name, False, f"{what} is {ours}, but {published} was published")

"""What anyone can check of a draw that was published, and of a ticket that took part in it."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast.domain.lottery import Draw, Order, digest_of, entry_of, seed_hash


class Published(Struct, frozen=True):
    """The draw as `now` tells it after opening. `entries` is the list, if it was published and is at hand."""

    draw: Draw
    seed_hash: str
    entries: Sequence[str] | None = None


class Ticket(Struct, frozen=True):
    """What a ticket says. Before opening it has no position yet; then there is only one to be told, from 1."""

    arrival: int
    position: int | None = None
    sale_id: str | None = None
    buyer_id: str | None = None
    ticket_id: str | None = None
    # The commitment as it was when the ticket was signed, so that nobody can change it afterwards.
    seed_hash: str | None = None


class Check(Struct, frozen=True):
    name: str
    ok: bool
    detail: str


def checks_of(published: Published, ticket: Ticket) -> list[Check]:
    """Each check that can be made from what is there, in the order in which they build on each other."""
    draw = published.draw
    found = [_same("seed", "the seed's hash", seed_hash(draw.seed), published.seed_hash)]
    if ticket.seed_hash is not None:
        found.append(_same("commitment", "the hash at joining", ticket.seed_hash, published.seed_hash))
    if ticket.sale_id is not None:
        found.append(_same("sale", "the sale", ticket.sale_id, draw.sale_id))
    if published.entries is not None:
        found.extend(_list_checks(draw, published.entries, ticket))
    if ticket.position is not None:
        found.append(_same("position", "the position", Order(draw).place_of(ticket.arrival) + 1, ticket.position))
    return found


def _list_checks(draw: Draw, entries: Sequence[str], ticket: Ticket) -> list[Check]:
    found = [
        _same("entrants", "the length of the list", len(entries), draw.entrants),
        _same("digest", "the list's digest", digest_of(entries), draw.digest),
    ]
    if ticket.buyer_id is not None and ticket.ticket_id is not None and ticket.arrival < len(entries):
        ours = entry_of(draw.sale_id, ticket.buyer_id, ticket.ticket_id)
        found.append(_same("entry", f"line {ticket.arrival + 1} of the list", ours, entries[ticket.arrival]))
    return found


def _same(name: str, what: str, ours: object, told: object) -> Check:
    if ours == told:
        return Check(name, True, f"{what} is {ours}")
    return Check(name, False, f"{what} is {ours}, but {told} was told")

"""What people in line are refused for."""

from holdfast.domain.sale import Phase, Sale
from holdfast.http.problems import Problem
from holdfast.http.times import rfc3339


def no_room(sale: Sale) -> Problem:
    detail = f"The sale {sale.sale_id} has no waiting room: purchase at once."
    return Problem(409, "no_room", "No waiting room", detail)


def sale_over() -> Problem:
    return Problem(409, "sale_ended", "Ended", "The sale is over.")


def too_low_tier() -> Problem:
    return Problem(403, "tier_required", "Tier required", "This needs a higher account tier.")


def ticket_required() -> Problem:
    detail = "Send your ticket in the `Holdfast-Ticket` header; joining gives you one."
    return Problem(400, "ticket_required", "Ticket required", detail)


def ticket_invalid() -> Problem:
    detail = "This is not a ticket of yours for this sale, or it is over. Join again: if you have a place you keep it."
    return Problem(403, "ticket_invalid", "Not a valid ticket", detail)


def place_given_up() -> Problem:
    detail = "You left, or joined again since. Join again for a place at the end of the line."
    return Problem(409, "place_given_up", "No place", detail)


def pass_over(pass_until: int) -> Problem:
    detail = "You had your turn, and your pass is over. Join again for a place at the end of the line."
    return Problem(409, "pass_over", "Pass is over", detail, expired_at=rfc3339(pass_until))


def not_drawn() -> Problem:
    detail = "There is no draw yet. The list is published when a lottery opens; other lines have none."
    return Problem(409, "not_drawn", "Not drawn", detail)


def refuse_ended(sale: Sale, now: int) -> None:
    if sale.phase(now, None) is Phase.ENDED:
        raise sale_over()


def room_problems(sale: Sale) -> list[Problem]:
    """One of each, for the list of reasons."""
    return [no_room(sale), ticket_required(), ticket_invalid(), place_given_up(), pass_over(0), not_drawn()]

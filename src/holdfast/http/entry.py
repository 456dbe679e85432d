"""The price of getting in line: asked here, of everyone who joins, before they get a place."""

from holdfast.domain.sale import Sale
from holdfast.http.identity import Caller
from holdfast.http.requests import Request


async def check_entry(sale: Sale, caller: Caller, proof: str | None, request: Request) -> None:
    """Raises the `Problem` for which somebody may not join. Nothing is asked yet."""

"""Faults of the payment sandbox while a rush runs, and those from before again when it ends, however it ends.

What cannot be undone is named, with the command that undoes it: somebody else's server would go on losing replies.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import typer

from holdfast.lab.rush.server.target import Target

_TIMEOUT_S = 10.0


@asynccontextmanager
async def payment_faults(target: Target, share: float, seed: int) -> AsyncIterator[None]:
    """Lost replies and errors of the payment provider, which the settler has to handle."""
    if not target.sandbox_url or not share:
        yield
        return
    url = f"{target.sandbox_url}/faults"
    wanted = {"seed": seed, "lost_reply": share / 2, "error": share / 2}
    async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT_S) as client:
        before = (await client.get(url)).raise_for_status().json()
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT_S) as client:
            now = (await client.put(url, json=wanted)).raise_for_status().json()
        if now == before:
            # Of another part of this crowd, or of a rush that was killed: they are not to stay.
            before = {}
        yield
    finally:
        await _restore(url, before)


async def _restore(url: str, before: dict[str, Any]) -> None:
    # A client of its own: that of an interrupted call is not to be used again.
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT_S) as client:
            (await client.put(url, json=before)).raise_for_status()
    except httpx.HTTPError as exc:
        typer.echo(
            f"Not undone: the payment faults that this rush set at {url} ({exc!r}).\n"
            f"Undo them with: curl -X PUT {url} -d '{{}}'",
            err=True,
        )

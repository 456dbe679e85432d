"""Sets faults in the payment sandbox for the duration of a rush, and always restores the earlier ones afterwards.

If that fails, prints the command to do so: otherwise somebody else's server would keep losing replies.
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
            # Set by another part of this crowd or by a killed rush, so they must not be restored.
            before = {}
        yield
    finally:
        await _restore(url, before)


async def _restore(url: str, before: dict[str, Any]) -> None:
    # Uses its own client, because that of an interrupted call must not be reused.
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT_S) as client:
            (await client.put(url, json=before)).raise_for_status()
    except httpx.HTTPError as exc:
        typer.echo(
            f"Not undone: the payment faults that this rush set at {url} ({exc!r}).\n"
            f"Undo them with: curl -X PUT {url} -d '{{}}'",
            err=True,
        )

"""Sending an answer that comes bit by bit, for as long as somebody listens."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from holdfast.http.requests import Wire


async def send_while_there(
    stream: AsyncGenerator[bytes, None], wire: Wire, send: Callable[[bytes], Awaitable[object]]
) -> None:
    """Until the stream ends, or whoever listens has hung up."""

    async def send_all() -> None:
        async for portion in stream:
            await send(portion)

    sending, leaving = asyncio.create_task(send_all()), asyncio.create_task(wire.gone())
    try:
        await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        await stream.aclose()

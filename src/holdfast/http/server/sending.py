"""Sending a stream for as long as the client is connected."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from holdfast.http.contract.message import ClientConnection


async def send_while_connected(
    stream: AsyncGenerator[bytes, None], client: ClientConnection, send: Callable[[bytes], Awaitable[object]]
) -> None:
    """Until the stream ends, or the client disconnects."""

    async def send_all() -> None:
        async for portion in stream:
            await send(portion)

    sending, leaving = asyncio.create_task(send_all()), asyncio.create_task(client.wait_disconnected())
    try:
        await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        await stream.aclose()

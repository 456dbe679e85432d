"""The wire between Holdfast and PostgreSQL, which can be cut at the moment that matters: when COMMIT is on it."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from pathlib import Path

from sqlalchemy import make_url

SOCKET_NAME = ".s.PGSQL.5432"


class Cut(Enum):
    NEVER = auto()
    BEFORE_COMMIT_ARRIVES = auto()
    BEFORE_ITS_ANSWER_ARRIVES = auto()


class Wire:
    def __init__(self, server_socket: Path) -> None:
        self.cut = Cut.NEVER
        self.cuts = 0
        # What a request has that commits.
        self.commit = b"COMMIT"
        # How much later every answer arrives.
        self.delay_s = 0.0
        # While this is not set, both ends stay connected, and nothing reaches the other.
        self.flows = asyncio.Event()
        self.flows.set()
        self._server_socket = server_socket

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._server_socket)
        answers = asyncio.create_task(self._carry_answers(server_reader, writer))
        with suppress(OSError):
            await self._carry_requests(reader, server_writer, answers)
        answers.cancel()
        for end in (writer, server_writer):
            end.close()

    async def _carry_requests(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, answers: "asyncio.Task[None]"
    ) -> None:
        while request := await reader.read(2**16):
            await self.flows.wait()
            is_commit = self.commit in request
            if is_commit and self.cut is not Cut.NEVER:
                self.cuts += 1
                answers.cancel()
                if self.cut is Cut.BEFORE_ITS_ANSWER_ARRIVES:
                    server.write(request)
                    await server.drain()
                return
            server.write(request)
            await server.drain()

    async def _carry_answers(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while answer := await server.read(2**16):
                await self.flows.wait()
                await asyncio.sleep(self.delay_s)
                writer.write(answer)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def wired(server_url: str) -> AsyncIterator[tuple[Wire, str]]:
    """A wire to this server, and the URL at its near end."""
    url = make_url(server_url)
    wire = Wire(Path(str(url.query["host"])) / SOCKET_NAME)
    with tempfile.TemporaryDirectory(prefix="holdfast-wire-") as directory:
        listener = await asyncio.start_unix_server(wire.carry, Path(directory) / SOCKET_NAME)
        async with listener:
            yield wire, url.update_query_dict({"host": directory}).render_as_string(hide_password=False)

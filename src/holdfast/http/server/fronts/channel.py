"""The protocol between fronts and the core, over a socket that only their user can open.

A frame is a list of messages in msgpack, with its length before it. All that one end has to say in a turn of its event
loop goes in one frame and one write. A request has a number of its front's choosing, by which everything about it goes.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar, cast

import msgspec
import structlog
from msgspec import Struct

log = structlog.get_logger()

_LENGTH_BYTES = 4
# The ID, the tier, the ID at Stripe, when the account was made, and the ID of the token.
Buyer: TypeAlias = tuple[str, int, str | None, int | None, str | None]


class Asked(Struct, frozen=True, array_like=True, tag=0, gc=False):
    """A request, with its body read and, if it has a buyer's token, with what that said."""

    number: int
    method: str
    path: str
    query: str
    # None for a value that cannot be read.
    headers: list[tuple[str, str | None]]
    peer: str
    request_id: str
    authorization: str | None
    idempotency_key: str | None
    body: bytes
    buyer: Buyer | None
    unauthorized: str | None
    # By the monotonic clock, which all processes of a host share.
    arrived: float


class Left(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """The client has disconnected."""

    number: int


class Taken(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The client has been sent the last portion of a stream, and can be sent another."""

    number: int


class Answered(Struct, frozen=True, array_like=True, tag=3, gc=False):
    number: int
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Begun(Struct, frozen=True, array_like=True, tag=4, gc=False):
    """An answer that follows in portions."""

    number: int
    status: int
    headers: list[tuple[str, str]]


class Portion(Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Of a stream; its last one is None."""

    number: int
    data: bytes | None


class Attempted(Struct, frozen=True, array_like=True, tag=6, gc=False):
    """A purchase that is likely to be refused, with all that a refusal needs."""

    number: int
    sale_id: str
    buyer_id: str
    tier: int
    token_id: str | None
    key: str
    quantity: int
    pass_: str | None
    # By what limits count the client; None if it is exempt.
    address: str | None
    request_id: str


class Unsure(Struct, frozen=True, array_like=True, tag=7, gc=False):
    """Of an attempt: the whole request is needed. Nothing was counted or changed."""

    number: int


ToCore: TypeAlias = Asked | Left | Taken | Attempted
ToFront: TypeAlias = Answered | Begun | Portion | Unsure
Heard = TypeVar("Heard")

_encode = msgspec.msgpack.Encoder().encode
heard_by_core = msgspec.msgpack.Decoder(list[ToCore])
heard_by_front = msgspec.msgpack.Decoder(list[ToFront])


class Channel(asyncio.Protocol, Generic[Heard]):
    """One end of the socket."""

    def __init__(
        self, decoder: "msgspec.msgpack.Decoder[list[Heard]]", hear: Callable[[Heard], None], lost: Callable[[], None]
    ) -> None:
        self._decode, self._hear, self._lost = decoder.decode, hear, lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None
        self._received = bytearray()
        self._unsent: list[ToCore | ToFront] = []

    def say(self, message: ToCore | ToFront) -> None:
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(message)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _send(self) -> None:
        messages, self._unsent = self._unsent, []
        try:
            data = _encode(messages)
        except (OverflowError, TypeError, ValueError):
            # It is unknown what is lost with them, so treat them as if the other end had died.
            log.exception("messages_unsent", messages=len(messages))
            self.close()
            return
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(len(data).to_bytes(_LENGTH_BYTES) + data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        start = 0
        while len(received) - start >= _LENGTH_BYTES:
            begin = start + _LENGTH_BYTES
            end = begin + int.from_bytes(received[start:begin])
            if end > len(received):
                break
            for message in self._decode(received[begin:end]):
                self._hear(message)
            start = end
        del received[:start]

    def connection_lost(self, _exc: Exception | None) -> None:
        self._lost()

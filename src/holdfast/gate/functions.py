"""Calls of the function library, which is loaded when it is not there."""

from collections.abc import Sequence
from typing import Any

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate.library import ensure_loaded, source
from holdfast.gate.link.port import Command, RedisLink
from holdfast.gate.link.replies import RedisRefused

# How long a batch waits for its replicas, if any are asked for.
REPLICAS_TIMEOUT_MS = 1_000


class Functions:
    def __init__(self, link: RedisLink, text: str | None = None) -> None:
        self.link = link
        self._text = text or source()

    async def load(self) -> None:
        await ensure_loaded(self.link, self._text)

    async def call(
        self, name: str, keys: Sequence[str], arguments: Sequence[str | bytes | int], *, replicas_min: int = 0
    ) -> Any:
        """What the function gives. With `replicas_min`, that many replicas have what it wrote."""
        commands: list[Command] = [["FCALL", name, len(keys), *keys, *arguments]]
        if replicas_min:
            commands.append(["WAIT", replicas_min, REPLICAS_TIMEOUT_MS])
        reply, *reached = await self._send(keys[0], commands)
        if reached and reached[0] < replicas_min:
            raise OutcomeUnknown(f"only {reached[0]} of {replicas_min} replicas have it")
        return reply

    async def _send(self, key: str, commands: Sequence[Command]) -> list[Any]:
        try:
            return await self.link.call(key, *commands)
        except RedisRefused as exc:
            if "unction not found" not in exc.message:
                # The function failed on its way; it checks before it writes, but a defect may be anywhere.
                raise OutcomeUnknown(str(exc)) from exc
        await self.load()
        try:
            return await self.link.call(key, *commands)
        except RedisRefused as exc:
            raise Unavailable(f"the function library does not stay loaded: {exc}") from exc

"""Buyers' requests to API processes; each runs on the host of its process."""

import asyncio
from functools import partial
from typing import Any

from holdfast.errors import EngineError
from holdfast.lab.simulate.buyers.asking import Handle
from holdfast.lab.simulate.buyers.client import Client, Defect, Gone
from holdfast.lab.simulate.channel import Call, Channel, NoAnswer, NotReached
from holdfast.lab.simulate.process import Process


class Api(Channel):
    """A channel whose server side takes time and may crash before it responds."""

    async def request(self, process: Process, what: str, handle: Handle, patience_s: float) -> Any:
        """Returns the result. Raises the engine error that the server would report, or the client's error if none
        arrives."""
        gone: asyncio.Future[None] = self.loop.create_future()
        try:
            return await self.call(what, lambda _: partial(self._serve, process, handle, gone), patience_s)
        except NoAnswer:
            # A server notices when its client disconnects.
            self.loop.call_in_world(self.delay_s(), _leave, gone)
            raise

    def _perform(self, call: Call) -> None:
        serve = call.carry_out(call.fault)
        process: Process = serve.args[0]
        if process.host.is_dead or process.services is None:
            self.respond(call, NotReached(f"{process.name} is not up"), is_failure=True)
        else:
            self.loop.run_on(process.host, serve(call))

    async def _serve(self, process: Process, handle: Handle, gone: asyncio.Future[None], call: Call) -> None:
        try:
            result = await handle(process, Client(gone))
        except (EngineError, Gone) as exc:
            self.respond(call, exc, is_failure=True)
        except Exception as exc:
            self.trace.note("DEFECT", repr(exc))
            self.respond(call, Defect(repr(exc)), is_failure=True)
        else:
            self.respond(call, result)


def _leave(gone: asyncio.Future[None]) -> None:
    if not gone.done():
        gone.set_result(None)

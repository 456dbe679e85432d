"""How a use case waits for the gate. A server drops a command when its client disconnects; other callers just wait."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.domain.stock.command import Verdict

Wait = Callable[[asyncio.Future[Verdict]], Awaitable[Verdict]]

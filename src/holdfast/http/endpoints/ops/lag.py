"""How far background work is behind."""

from holdfast.bootstrap.services import Services
from holdfast.http.contract.message import Answer, Request, json
from holdfast.http.contract.schemas.operate import LagsOut


class LagEndpoint:
    def __init__(self, services: Services) -> None:
        self._lag = services.lag

    async def lag(self, _request: Request) -> Answer:
        return json(LagsOut.of(await self._lag.read()))

"""The responses of a server until its stores are up: live, but not ready."""

from time import monotonic

from holdfast.http.contract import problems
from holdfast.http.contract.endpoints.operate import LIVE
from holdfast.http.contract.message import Answer, Request, json, refuse
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.operate import CheckOut, HealthOut
from holdfast.http.server.reading import request_id_from

_CAPABILITIES = ("selling", "settling", "joining")
_REASON = "waiting_for_store"


class StartingApp:
    def __init__(self) -> None:
        self._began = monotonic()

    def refuse_unread(self, problem: Problem, request_id: str | None) -> Answer:
        answer = refuse(problem)
        answer.headers.append(("x-request-id", request_id_from(request_id)))
        return answer

    async def answer(self, request: Request) -> Answer:
        if request.path == LIVE.path:
            answer = json(HealthOut("live"))
        else:
            check = CheckOut(ok=False, age_ms=round((monotonic() - self._began) * 1000), reason=_REASON)
            detail = "The server is starting and waits for its stores. Nothing was changed; retry shortly."
            answer = refuse(Problem(problems.NOT_READY, detail, checks=dict.fromkeys(_CAPABILITIES, check)))
        answer.headers.append(("x-request-id", request.request_id))
        return answer

"""What happened to a buyer."""

from holdfast.audit.ask import ask
from holdfast.audit.search import Question
from holdfast.bootstrap.services import Services
from holdfast.http.contract.message import Answer, Request, json
from holdfast.http.contract.refusals import invalid_request
from holdfast.http.contract.schemas.operate import AuditQuery, TimelineOut
from holdfast.http.protection.shedding import Feature, Shedder
from holdfast.runtime.times import millis


class AuditEndpoint:
    def __init__(self, services: Services, shedder: Shedder) -> None:
        self._reads, self._catch_up = services.reads, services.engine.catch_up
        self._directory, self._shedder = services.settings.audit_directory, shedder

    async def search(self, _request: Request, wanted: AuditQuery) -> Answer:
        self._shedder.check(Feature.AUDIT_SEARCH)
        question = Question(
            wanted.buyer_id,
            wanted.sku_id,
            wanted.sale_id,
            _moment("since", wanted.since),
            _moment("until", wanted.until),
            wanted.limit,
        )
        await self._catch_up(wanted.sku_id)
        return json(TimelineOut.of(await ask(self._reads, self._directory, question)))


def _moment(field: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return millis(text)
    except (ValueError, OverflowError) as exc:
        raise invalid_request({field: "must be a time such as 2026-05-01T10:00:00Z"}) from exc

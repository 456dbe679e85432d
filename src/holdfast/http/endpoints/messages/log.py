"""The log of messages, and sending one again."""

from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.http.contract import message_problems
from holdfast.http.contract.message import Answer, Request, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.messages import MessageOut, MessagePage, MessageQuery
from holdfast.ledger.messages.message_log import list_messages, resend

# A message that is sent again is valid for this long.
RESENT_MS = 24 * 3_600_000


class MessageLogEndpoints:
    def __init__(self, services: Services) -> None:
        self._database, self._reads = services.database, services.reads

    async def list(self, _request: Request, wanted: MessageQuery) -> Answer:
        def page(connection: Connection) -> MessagePage:
            found, has_more = list_messages(
                connection,
                limit=wanted.limit,
                buyer_id=wanted.buyer_id,
                sale_id=wanted.sale_id,
                state=wanted.state,
                starting_after=wanted.starting_after,
            )
            return MessagePage([MessageOut.of(message) for message in found], has_more)

        return json(await self._reads.read(page))

    async def resend(self, _request: Request, message_id: str) -> Answer:
        def work(connection: Connection) -> MessageOut:
            now = self._database.now_ms(connection)
            found = resend(connection, message_id, now, now + RESENT_MS)
            if found is None:
                raise Problem(message_problems.MESSAGE_NOT_FOUND)
            return MessageOut.of(found)

        return json(await self._database.write(work))

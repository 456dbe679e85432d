"""Where buyers want to be told."""

from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.http.contract import message_problems
from holdfast.http.contract.message import Answer, Request, buyer_of, json, no_content
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.messages import ContactIn, ContactOut
from holdfast.ledger.messages.contacts import Contact, delete_contact, find_contact, put_contact


class ContactEndpoints:
    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._has_mail = bool(services.settings.smtp_url.get_secret_value())

    async def get_contact(self, request: Request) -> Answer:
        found = await self._database.read(lambda c: find_contact(c, buyer_of(request)))
        if found is None:
            raise Problem(message_problems.CONTACT_NOT_FOUND)
        return json(ContactOut.of(found))

    async def put_contact(self, request: Request, given: ContactIn) -> Answer:
        if not self._has_mail:
            raise Problem(message_problems.MESSAGES_OFF)

        def work(connection: Connection) -> Contact:
            now = self._database.now_ms(connection)
            asked = Contact(buyer_of(request), given.email, given.locale, now if given.next_sale else None)
            return put_contact(connection, asked, now)

        return json(ContactOut.of(await self._database.write(work)))

    async def delete_contact(self, request: Request) -> Answer:
        await self._database.write(lambda c: delete_contact(c, buyer_of(request)))
        return no_content()

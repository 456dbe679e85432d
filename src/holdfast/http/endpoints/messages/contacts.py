"""Buyers' contacts for messages."""

from msgspec import UNSET
from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.http.contract import message_problems
from holdfast.http.contract.message import Answer, Request, buyer_of, json, no_content
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import invalid_request
from holdfast.http.contract.schemas.messages import ContactIn, ContactOut, PushSubscription
from holdfast.ledger.messages.contacts import Contact, delete_contact, find_contact, put_contact
from holdfast.ledger.messages.devices import Device, count_devices, device_id_of, put_device
from holdfast.messages.push.encryption import AUTH_BYTES, encrypt, from_base64url
from holdfast.runtime.outgoing.address import check_url


class ContactEndpoints:
    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._has_mail = bool(services.settings.smtp_url.get_secret_value())
        self._has_push = bool(services.settings.push_contact)

    async def get_contact(self, request: Request) -> Answer:
        return json(await self._database.read(lambda c: _shown(c, find_contact(c, buyer_of(request)))))

    async def put_contact(self, request: Request, given: ContactIn) -> Answer:
        buyer_id = buyer_of(request)
        if (given.push is not UNSET and not self._has_push) or (given.push is UNSET and not self._has_mail):
            raise Problem(message_problems.MESSAGES_OFF)
        device = None if given.push is UNSET else _device_of(buyer_id, given.push)

        def work(connection: Connection) -> ContactOut:
            now, before = self._database.now_ms(connection), find_contact(connection, buyer_id)
            known = None if before is None else before.email
            email = known if given.email is UNSET else given.email
            if device is not None:
                put_device(connection, device, now)
            elif email is None and not count_devices(connection, buyer_id):
                raise invalid_request({"email": "or a push subscription is needed"})
            asked = Contact(buyer_id, email, given.locale, now if given.next_sale else None)
            return _shown(connection, put_contact(connection, asked, now))

        return json(await self._database.write(work))

    async def delete_contact(self, request: Request) -> Answer:
        await self._database.write(lambda c: delete_contact(c, buyer_of(request)))
        return no_content()


def _shown(connection: Connection, contact: Contact | None) -> ContactOut:
    if contact is None:
        raise Problem(message_problems.CONTACT_NOT_FOUND)
    return ContactOut.of(contact, count_devices(connection, contact.buyer_id))


def _device_of(buyer_id: str, given: PushSubscription) -> Device:
    try:
        endpoint = check_url(given.endpoint, private=False)
    except ValueError as exc:
        raise invalid_request({"push.endpoint": "must be the URL of a push service, at a public address"}) from exc
    try:
        auth = from_base64url(given.keys.auth)
        encrypt(b"", from_base64url(given.keys.p256dh), auth)
    except ValueError as exc:
        raise invalid_request({"push.keys": "must be those of a browser's subscription"}) from exc
    if len(auth) != AUTH_BYTES:
        raise invalid_request({"push.keys.auth": f"must be {AUTH_BYTES} bytes in base64url"})
    return Device(device_id_of(endpoint), buyer_id, endpoint, given.keys.p256dh, given.keys.auth)

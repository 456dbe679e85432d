"""Builds the services that send messages to buyers; none without a mail server and Web Push."""

from pathlib import Path
from typing import Any

from holdfast.ledger.engine.database import Database
from holdfast.messages.addressing import Addresses
from holdfast.messages.letters import Letters
from holdfast.messages.lines import LineMessages
from holdfast.messages.mail_settings import public_url_of, sender_of
from holdfast.messages.mailer import Mailer
from holdfast.messages.push.pusher import SEND_TIMEOUT_S, Pusher
from holdfast.messages.push.vapid import VapidKey
from holdfast.messages.relay import MessageRelay
from holdfast.messages.smtp_url import parse_smtp_url
from holdfast.messages.unsubscribe import UnsubscribeLinks
from holdfast.runtime.agent import Agent
from holdfast.runtime.outgoing.poster import Poster
from holdfast.runtime.signing import parse_signing_keys
from holdfast.settings import Settings


def unsubscribe_links(settings: Settings) -> UnsubscribeLinks:
    public_url = public_url_of(settings.public_url, settings.console_url)
    return UnsubscribeLinks(parse_signing_keys(settings.signing_key_text()), public_url)


def message_agents(settings: Settings, database: Database) -> list[Agent[Any]]:
    smtp_url, vapid_key = settings.smtp_url.get_secret_value(), vapid_key_of(settings)
    folder = Path(settings.message_templates) if settings.message_templates else None
    letters = Letters(folder, public_url_of(settings.public_url, settings.console_url))
    senders: list[Mailer | Pusher] = []
    if smtp_url:
        sender = sender_of(smtp_url, settings.mail_from)
        senders.append(Mailer(database, parse_smtp_url(smtp_url), sender, letters, unsubscribe_links(settings)))
    if vapid_key is not None:
        senders.append(Pusher(database, Poster(private=False, timeout_s=SEND_TIMEOUT_S), vapid_key, letters))
    if not senders:
        return []

    def wake() -> None:
        for each in senders:
            each.wake()

    addresses = Addresses(has_mail=bool(smtp_url), has_push=vapid_key is not None)
    relay, lines = MessageRelay(database, addresses, wake), LineMessages(database, addresses, wake)
    return [relay.agent(), lines.agent(), *[each.agent() for each in senders]]


def vapid_key_of(settings: Settings) -> VapidKey | None:
    """None: there are no notifications."""
    return VapidKey(settings.push_key_text(), settings.push_contact) if settings.push_contact else None

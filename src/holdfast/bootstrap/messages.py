"""Builds what sends messages to buyers. Without a mail server there is none of it."""

from pathlib import Path
from typing import Any

from holdfast.ledger.engine.database import Database
from holdfast.messages.addressing import Addresses
from holdfast.messages.letters import Letters
from holdfast.messages.lines import LineMessages
from holdfast.messages.mail_settings import public_url_of, sender_of
from holdfast.messages.mailer import Mailer
from holdfast.messages.relay import MessageRelay
from holdfast.messages.smtp_url import parse_smtp_url
from holdfast.messages.unsubscribe import UnsubscribeLinks
from holdfast.runtime.agent import Agent
from holdfast.runtime.signing import parse_signing_keys
from holdfast.settings import Settings


def unsubscribe_links(settings: Settings) -> UnsubscribeLinks:
    public_url = public_url_of(settings.public_url, settings.console_url)
    return UnsubscribeLinks(parse_signing_keys(settings.signing_key_text()), public_url)


def message_agents(settings: Settings, database: Database) -> list[Agent[Any]]:
    smtp_url = settings.smtp_url.get_secret_value()
    if not smtp_url:
        return []
    folder = Path(settings.message_templates) if settings.message_templates else None
    letters = Letters(folder, public_url_of(settings.public_url, settings.console_url))
    sender = sender_of(smtp_url, settings.mail_from)
    mailer = Mailer(database, parse_smtp_url(smtp_url), sender, letters, unsubscribe_links(settings))
    addresses = Addresses(has_mail=True)
    relay, lines = MessageRelay(database, addresses, mailer.wake), LineMessages(database, addresses, mailer.wake)
    return [relay.agent(), lines.agent(), mailer.agent()]

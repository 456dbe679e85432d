"""The mail settings, and the defaults for those that are not set."""

import re
from email.utils import parseaddr
from pathlib import Path

from holdfast.errors import SettingsError
from holdfast.messages.smtp_url import parse_smtp_url

LOCAL_URL = "http://127.0.0.1:8000"
_ADDRESS = re.compile(r"[^\x00-\x20\x7f@<>\"(),:;\\\[\]]+@[A-Za-z0-9.-]+")
MAX_ADDRESS = 254


def is_mail_address(text: str) -> bool:
    """An address that can be written verbatim into a header and an envelope. Anything that looks like an encoded word
    (RFC 2047) would be decoded in a header, line breaks included."""
    is_plain = len(text) <= MAX_ADDRESS and text.isascii() and "=?" not in text
    return is_plain and _ADDRESS.fullmatch(text) is not None


def check_mail(smtp_url: str, mail_from: str, templates: str) -> None:
    if smtp_url:
        parse_smtp_url(smtp_url)
    if mail_from and (not is_mail_address(parseaddr(mail_from)[1]) or not mail_from.isprintable()):
        raise SettingsError("HOLDFAST_MAIL_FROM: use an address as in Shop <noreply@shop.example>")
    if templates and not Path(templates).is_dir():
        raise SettingsError("HOLDFAST_MESSAGE_TEMPLATES: there is no such folder")


def sender_of(smtp_url: str, mail_from: str) -> str:
    """Default sender: the user of the mail server if that is an address, else an address at its host."""
    if mail_from:
        return mail_from
    url = parse_smtp_url(smtp_url)
    return url.user if is_mail_address(url.user) else f"noreply@{url.host.strip('[]')}"


def public_url_of(public_url: str, console_url: str) -> str:
    return public_url or console_url or LOCAL_URL

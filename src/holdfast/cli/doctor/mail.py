"""Mail: whether the server answers and takes our credentials, and what its links and sender are."""

import time

from holdfast.cli.doctor.finding import Finding, fail, ok, warn
from holdfast.messages.mail_settings import LOCAL_URL, public_url_of, sender_of
from holdfast.messages.smtp import SmtpSession, SmtpUnavailable
from holdfast.messages.smtp_url import parse_smtp_url
from holdfast.settings import Settings

TIMEOUT_S = 5.0


def examine_mail(settings: Settings) -> list[Finding]:
    smtp_url = settings.smtp_url.get_secret_value()
    if not smtp_url:
        return []
    url, started = parse_smtp_url(smtp_url), time.perf_counter()
    session = SmtpSession(url, timeout_s=TIMEOUT_S)
    try:
        session.open()
    except SmtpUnavailable as exc:
        problem = f"{url.host}:{url.port} {exc}; sales go on, and messages wait"
        return [fail("mail", problem, "correct HOLDFAST_SMTP_URL, or start the mail server"), *_links(settings)]
    finally:
        session.close()
    took_ms = (time.perf_counter() - started) * 1000
    sender = sender_of(smtp_url, settings.mail_from)
    return [ok("mail", f"{url.host}:{url.port} answers in {took_ms:.0f} ms; sent as {sender}"), *_links(settings)]


def _links(settings: Settings) -> list[Finding]:
    if public_url_of(settings.public_url, settings.console_url) != LOCAL_URL:
        return []
    found = f"links in messages lead to {LOCAL_URL}, which only this host can open"
    return [warn("public_url", found, "export HOLDFAST_PUBLIC_URL=https://… (what buyers open)")]

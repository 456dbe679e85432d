"""Sends mail by SMTP, one message after the other on a connection.

A connection is opened before messages are claimed, so none is claimed for a server that does not respond. Replies: 2xx
to the data means delivered; 5xx is final, because the same message would be rejected again; 4xx means retry later. If
the connection breaks before the data was sent, the message is unsent. If it breaks afterwards, the outcome is unknown,
because the server may have accepted it.
"""

import smtplib
import socket
import ssl
from contextlib import suppress

from msgspec import Struct

from holdfast.messages.smtp_url import SmtpUrl

TIMEOUT_S = 10.0
_FINAL = 500


class Reply(Struct, frozen=True):
    """`state`: sent, failed, unknown, or waiting for a retry. `is_broken`: the connection cannot be used any more."""

    state: str
    reason: str | None = None
    is_broken: bool = False
    # Whether the server replied.
    is_attempt: bool = True


class SmtpUnavailable(Exception):
    """The server cannot be reached, or refuses us. The error text contains no credentials."""


class SmtpSession:
    """Blocking: use it on a thread."""

    def __init__(self, url: SmtpUrl, *, timeout_s: float = TIMEOUT_S) -> None:
        self._url, self._timeout_s = url, timeout_s
        self._smtp: smtplib.SMTP | None = None

    def open(self) -> None:
        """Connect and log in. Raises `SmtpUnavailable`."""
        try:
            self._smtp = self._connected()
        except smtplib.SMTPAuthenticationError as exc:
            raise SmtpUnavailable(f"the server refuses the credentials ({exc.smtp_code})") from None
        except smtplib.SMTPResponseException as exc:
            raise SmtpUnavailable(f"the server answers {exc.smtp_code}") from None
        except ssl.SSLError as exc:
            raise SmtpUnavailable(f"TLS failed: {exc.reason}") from None
        except (smtplib.SMTPException, OSError) as exc:
            raise SmtpUnavailable(f"cannot be reached: {type(exc).__name__}") from None

    def _connected(self) -> smtplib.SMTP:
        url, context = self._url, ssl.create_default_context()
        if url.is_tls:
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(url.host, url.port, timeout=self._timeout_s, context=context)
        else:
            smtp = smtplib.SMTP(url.host, url.port, timeout=self._timeout_s)
        try:
            smtp.ehlo_or_helo_if_needed()
            if not url.is_tls:
                self._start_tls(smtp, context)
            if url.user:
                smtp.login(url.user, url.password)
        except BaseException:
            smtp.close()
            raise
        return smtp

    def _start_tls(self, smtp: smtplib.SMTP, context: ssl.SSLContext) -> None:
        offered = smtp.has_extn("starttls")
        if self._url.starttls == "required" and not offered:
            raise SmtpUnavailable("the server offers no STARTTLS, and nothing is sent in the open")
        if offered and self._url.starttls != "never":
            smtp.starttls(context=context)
            smtp.ehlo()

    def send(self, content: bytes, sender: str, recipient: str) -> Reply:
        assert self._smtp is not None
        smtp = self._smtp
        try:
            for code in (smtp.mail(sender)[0], smtp.rcpt(recipient)[0]):
                if code >= 400:
                    smtp.rset()
                    return _refused(code)
            code, _ = smtp.docmd("DATA")
            if code != 354:
                smtp.rset()
                return _refused(code)
        except (smtplib.SMTPException, OSError):
            return Reply("waiting", "connection_lost", is_broken=True, is_attempt=False)
        return self._data(smtp, content)

    @staticmethod
    def _data(smtp: smtplib.SMTP, content: bytes) -> Reply:
        """From here on, a missing reply does not mean that nothing was sent."""
        quoted = b"\r\n".join(b"." + line if line.startswith(b".") else line for line in content.split(b"\r\n"))
        try:
            smtp.send(quoted.rstrip(b"\r\n") + b"\r\n.\r\n")
            code, _ = smtp.getreply()
        except (smtplib.SMTPException, OSError):
            return Reply("unknown", "reply_lost", is_broken=True)
        return Reply("sent") if 200 <= code < 300 else _refused(code)

    def abort(self) -> None:
        """Does not wait, and interrupts a thread that is waiting for the server."""
        smtp, self._smtp = self._smtp, None
        if smtp is not None and smtp.sock is not None:
            with suppress(OSError):
                smtp.sock.shutdown(socket.SHUT_RDWR)
            smtp.close()

    def close(self) -> None:
        if self._smtp is not None:
            with suppress(smtplib.SMTPException, OSError):
                self._smtp.quit()
            self._smtp.close()
            self._smtp = None


def _refused(code: int) -> Reply:
    """421 ends the connection."""
    return Reply("failed" if code >= _FINAL else "waiting", f"smtp_{code}", is_broken=code == 421)

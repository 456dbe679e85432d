"""The certificate of the public address."""

import socket
import ssl
import time
from urllib.parse import urlsplit

from holdfast.cli.doctor.finding import Finding, fail, ok, warn

TIMEOUT_S = 5.0
# Renewed by most tools 30 days before the end.
DAYS_LEAST, DAYS_WANTED = 3, 21


def check_certificate(url: str | None) -> Finding:
    if url is None:
        found = "the public address was not given, so its certificate was not checked"
        return warn("TLS", found, "holdfast doctor --production --url https://shop.example.com")
    address = urlsplit(url)
    if address.scheme != "https" or not address.hostname:
        return fail("TLS", f"{url} is not encrypted: tokens can be read on the way", "serve it by https (deploy/nginx)")
    host, port = address.hostname, address.port or 443
    try:
        ends_at = _ends_at(host, port)
    except ssl.SSLCertVerificationError as exc:
        return fail("TLS", f"the certificate of {host} is not valid: {exc.verify_message}", "renew it: certbot renew")
    except (OSError, ValueError) as exc:
        return fail("TLS", f"{host}:{port} cannot be reached: {exc}", "start the proxy, or correct --url")
    return judge(host, (ends_at - time.time()) / 86_400)


def _ends_at(host: str, port: int) -> float:
    context = ssl.create_default_context()
    with (
        socket.create_connection((host, port), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as tls,
    ):
        certificate = tls.getpeercert()
    assert certificate is not None
    return ssl.cert_time_to_seconds(str(certificate["notAfter"]))


def judge(host: str, days: float) -> Finding:
    found = f"the certificate of {host} is valid for {days:,.0f} more days"
    fix = "renew it: certbot renew, and check that its timer runs"
    if days < DAYS_LEAST:
        return fail("TLS", found, fix)
    return warn("TLS", found, fix) if days < DAYS_WANTED else ok("TLS", found)

"""`HOLDFAST_KAFKA_URL`: brokers, credentials, and options of the client library.

    kafka://host:9092,host:9092                          plain
    kafka+ssl://user:password@host:9093                  TLS, SASL (SCRAM-SHA-512)
    kafka+ssl://user:password@host:9093?sasl.mechanism=PLAIN&partitions=50&replication=3

`partitions` and `replication` are for topics that Holdfast creates. Everything else is passed on to librdkafka.
"""

from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from holdfast.errors import SettingsError

PARTITIONS = 12
# The broker's default.
REPLICATION = -1
_SCHEMES = {"kafka": False, "kafka+ssl": True}
_USE = "HOLDFAST_KAFKA_URL: use kafka://host:9092 or kafka+ssl://user:password@host:9093"


class KafkaUrl(Struct, frozen=True):
    servers: str
    options: dict[str, str]
    partitions: int = PARTITIONS
    replication: int = REPLICATION

    def __repr__(self) -> str:
        """Without the password, so that no log contains it."""
        return f"KafkaUrl({self.servers!r})"


def parse_kafka_url(url: str) -> KafkaUrl:
    # The URL may contain a password, so it is not repeated in messages.
    parts = urlsplit(url)
    credentials, _, servers = parts.netloc.rpartition("@")
    hosts = [host.rpartition(":") for host in servers.split(",")]
    if parts.scheme not in _SCHEMES or not all(name and port.isdigit() for name, _, port in hosts):
        raise SettingsError(_USE)
    if parts.path not in ("", "/"):
        raise SettingsError(f"{_USE}, without a path")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    partitions, replication = given.pop("partitions", str(PARTITIONS)), given.pop("replication", str(REPLICATION))
    if not (_is_count(partitions) and (_is_count(replication) or replication == str(REPLICATION))):
        raise SettingsError("HOLDFAST_KAFKA_URL: partitions and replication must be numbers above 0")
    options = _security(credentials, is_tls=_SCHEMES[parts.scheme]) | given
    return KafkaUrl(servers, options, int(partitions), int(replication))


def _is_count(text: str) -> bool:
    return text.isdigit() and int(text) > 0


def _security(credentials: str, *, is_tls: bool) -> dict[str, str]:
    if not credentials:
        return {"security.protocol": "SSL"} if is_tls else {}
    user, _, password = credentials.partition(":")
    return {
        "security.protocol": "SASL_SSL" if is_tls else "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": unquote(user),
        "sasl.password": unquote(password),
    }


def check_kafka(url: str, *, has_clicks: bool, has_intents: bool) -> None:
    if url:
        parse_kafka_url(url)
    elif has_clicks:
        raise SettingsError("HOLDFAST_CLICKS_TO=kafka needs HOLDFAST_KAFKA_URL=kafka://host:9092")
    elif has_intents:
        raise SettingsError("HOLDFAST_SETTLEMENT_SOURCE=kafka needs HOLDFAST_KAFKA_URL=kafka://host:9092")

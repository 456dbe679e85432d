"""What stands at the door, put together: limits, shedding, proof of work, and what is known of our dependencies."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast.domain.breaker import Breaker
from holdfast.http.client_address import ClientAddresses
from holdfast.http.limits import Limits
from holdfast.http.places import Places
from holdfast.http.shedding import Shedder
from holdfast.ledger.database import Database
from holdfast.room.challenge import Challenges, secrets_from
from holdfast.settings import Settings
from holdfast.signing import parse_signing_keys


class Door(Struct, frozen=True, eq=False):
    limits: Limits
    places: Places
    shedder: Shedder
    challenges: Challenges
    breakers: Sequence[Breaker]

    @property
    def open_breakers(self) -> list[str]:
        return [breaker.name for breaker in self.breakers if not breaker.is_closed]


def build_door(settings: Settings, database: Database, breakers: Sequence[Breaker]) -> Door:
    addresses = ClientAddresses(settings.trusted_networks, limit_loopback=settings.limit_loopback)
    signing_keys = [key.secret for key in parse_signing_keys(settings.signing_key_text())]
    return Door(
        Limits(addresses, per_address=settings.rate_per_address, per_buyer=settings.rate_per_buyer),
        Places(addresses, settings.places_per_address),
        Shedder(),
        Challenges(database, secrets_from(signing_keys)),
        breakers,
    )

"""Services shared by all cells. A server without cells has them in its own ledger."""

from msgspec import Struct

from holdfast.access.identity import Authenticator, BuyerKeys
from holdfast.access.revoked_buyers import RevokedBuyers
from holdfast.ledger.engine.database import Database
from holdfast.settings import Settings


class Control(Struct, frozen=True, eq=False):
    """Who may call, and the database with the record of what operators do."""

    authenticator: Authenticator
    revoked_buyers: RevokedBuyers
    database: Database
    # The name of the cell that these services are of.
    cell: str | None = None


def own_control(settings: Settings, database: Database) -> Control:
    # With a JWKS URL a secret would never be used, so none is generated.
    secret = "" if settings.buyer_jwks_url else settings.buyer_secret_text()
    buyer_keys = BuyerKeys(secret, settings.buyer_jwks_url, settings.buyer_audience, settings.buyer_issuer)
    authenticator = Authenticator(database, settings.service_key_text(), buyer_keys)
    return Control(authenticator, RevokedBuyers(database), database)

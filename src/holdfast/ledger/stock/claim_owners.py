"""Owners of sales that are claimed but not recorded yet."""

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Connection, select

from holdfast.ledger.engine.rows import encode_rows, rows_parameter
from holdfast.ledger.tables.stock import claims


class ClaimOwners:
    def __init__(self, dialect_name: str) -> None:
        given = rows_parameter(dialect_name, [claims.c.owner_id])
        # Claims exist only briefly: there are too few for an index on their owners.
        self._claimed = select(claims.c.owner_id, claims.c.sku_id).where(claims.c.owner_id.in_(select(*given.c)))

    def pools(self, connection: Connection, owner_ids: Iterable[str]) -> dict[str, set[str]]:
        """The pools that these owners have bought from, by owner."""
        found: dict[str, set[str]] = defaultdict(set)
        for owner_id, sku_id in connection.execute(self._claimed, {"rows": encode_rows([o] for o in owner_ids)}):
            found[owner_id].add(sku_id)
        return found

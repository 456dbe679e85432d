"""A later version of Holdfast, made from this one: a migration, a column that it writes, functions with new names."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from processes import HoldfastProcess

import holdfast
from holdfast.ledger.revision import newest_revision

NEWEST = newest_revision()
LATER = f"{int(NEWEST) + 1:04}"
# What a version that does not know the column leaves in it, and what the later one writes.
EARLIER_CHANNEL, LATER_CHANNEL = "earlier", "later"
_TABLES = ("pools", "reservations", "events")

_HEAD = f"""
import sqlalchemy as sa
from alembic import op
revision, down_revision = "{LATER}", "{NEWEST}"
def upgrade():
"""
_EXPAND = f"""
    op.create_table("channels", sa.Column("name", sa.String(), primary_key=True))
    for table in {_TABLES}:
        op.add_column(table, sa.Column("channel", sa.String(), nullable=False, server_default="{EARLIER_CHANNEL}"))
"""
_CONTRACT = f"""
    op.execute("UPDATE compatibility SET min_reader = '{LATER}'")
"""
_DECLARED = f"""
pools.append_column(
    Column("channel", String, nullable=False, server_default="{EARLIER_CHANNEL}", default="{LATER_CHANNEL}")
)
"""


def make_later_version(directory: Path, *, contracts: bool = False) -> Path:
    """A source tree for PYTHONPATH. One that contracts can no longer be used beside this version."""
    package = directory / "holdfast"
    # With what is compiled, which takes seconds.
    shutil.copytree(Path(holdfast.__file__).parent, package)
    migration = _HEAD + _EXPAND + (_CONTRACT if contracts else "")
    (package / f"ledger/migrations/versions/{LATER}_later.py").write_text(migration)
    with (package / "ledger/tables/stock.py").open("a") as declared:
        declared.write(_DECLARED)
    gate = package / "gate/redis"
    for file in [*gate.rglob("*.py"), *gate.rglob("*.lua")]:
        file.write_text(file.read_text().replace("_v2", "_v3"))
    return directory


class LaterProcess(HoldfastProcess):
    def __init__(self, tree: Path, data: Path, *options: str, **settings: str) -> None:
        super().__init__(data, *options, **settings)
        self._tree = tree

    @property
    def environment(self) -> Mapping[str, str]:
        return {**super().environment, "PYTHONPATH": str(self._tree)}


@asynccontextmanager
async def started(*servers: HoldfastProcess) -> AsyncIterator[None]:
    """All of them; none is left afterwards."""
    try:
        await asyncio.gather(*[server.start() for server in servers])
        yield
    finally:
        for server in servers:
            server.end()

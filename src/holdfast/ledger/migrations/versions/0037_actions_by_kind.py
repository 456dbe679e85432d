"""What was done within an hour is counted by an index, however much else was done."""

from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    """Only an addition: a server of the revision before keeps running beside this one."""
    op.create_index("operator_actions_by_action", "operator_actions", ["action", "at"])

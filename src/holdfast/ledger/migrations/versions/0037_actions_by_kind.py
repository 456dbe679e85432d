"""An index for counting an operator's actions within an hour."""

from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    """Only an addition: a server of the previous revision keeps running beside this one."""
    op.create_index("operator_actions_by_action", "operator_actions", ["action", "at"])

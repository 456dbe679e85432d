"""The problems of cells. They are part of the catalogue in `problems.py`."""

from holdfast.http.contract.problem import ProblemKind

CELL_UNAVAILABLE = ProblemKind(
    reason="cell_unavailable",
    status=503,
    title="This part of the shop is unavailable",
    detail="The cell that this is in (`cell`) cannot be reached. Sales in other cells continue.",
    action="Retry after the time in `Retry-After`, with the same idempotency key.",
    retryable=True,
)
CELL_MOVING = ProblemKind(
    reason="cell_moving",
    status=503,
    title="Being moved",
    detail="This sale is being moved to another cell. Nothing was changed; retry shortly.",
    action="Retry after the time in `Retry-After`.",
    retryable=True,
)
CELL_MISMATCH = ProblemKind(
    reason="cell_mismatch",
    status=409,
    title="In another cell",
    detail="This SKU is in another cell (`cell`), with all its sales.",
    action="Leave `cell` out, or move the SKU between its sales.",
)

# Generated from the endpoint table by `make docs`. Do not edit.

"""Reasons below `ServerProblem`."""

from holdfast.client import errors


class InternalError(errors.ServerProblem, reason="internal_error"):
    """500: Something failed on our side. The request ID finds it in the logs."""


class Busy(errors.ServerProblem, reason="busy"):
    """503: Too many requests are waiting. Nothing was changed; retry shortly."""


class NotReady(errors.ServerProblem, reason="not_ready"):
    """503: The store cannot be reached. Nothing was changed; retry shortly."""


class OutcomeUnknown(errors.ServerProblem, reason="outcome_unknown"):
    """503: It is unknown whether this was carried out."""


class CellUnavailable(errors.ServerProblem, reason="cell_unavailable"):
    """503: The cell that this is in (`cell`) cannot be reached. Sales in other cells continue."""


class CellMoving(errors.ServerProblem, reason="cell_moving"):
    """503: This sale is being moved to another cell. Nothing was changed; retry shortly."""

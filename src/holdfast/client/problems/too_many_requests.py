# Generated from the endpoint table by `make docs`. Do not edit.

"""Reasons below `TooManyRequests`."""

from holdfast.client import errors


class RateLimited(errors.TooManyRequests, reason="rate_limited"):
    """429: Rate limit exceeded."""


class AdmissionRequired(errors.TooManyRequests, reason="admission_required"):
    """429: This sale has a waiting room. Send a valid `Holdfast-Pass`."""


class TooManyPlaces(errors.TooManyRequests, reason="too_many_places"):
    """429: This address has the maximum number of places in the queue."""

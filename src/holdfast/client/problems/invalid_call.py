# Generated from the endpoint table by `make docs`. Do not edit.

"""Reasons below `InvalidCall`."""

from holdfast.client import errors


class InvalidJson(errors.InvalidCall, reason="invalid_json"):
    """400: Send a JSON object as the body."""


class InvalidHeader(errors.InvalidCall, reason="invalid_header"):
    """400: The value of a header is not ASCII text, or is not valid for this header."""


class IdempotencyKeyRequired(errors.InvalidCall, reason="idempotency_key_required"):
    """400: Send an `Idempotency-Key` header: a new one for each operation, the same one when you retry it."""


class TicketRequired(errors.InvalidCall, reason="ticket_required"):
    """400: Send your ticket in the `Holdfast-Ticket` header; joining returns one."""


class MethodNotAllowed(errors.InvalidCall, reason="method_not_allowed"):
    """405: Method not allowed; see Allow."""


class RequestTimeout(errors.InvalidCall, reason="request_timeout"):
    """408: The body did not arrive in time."""


class BodyTooLarge(errors.InvalidCall, reason="body_too_large"):
    """413: Send at most 16384 bytes."""


class PathTooLong(errors.InvalidCall, reason="path_too_long"):
    """414: Send a path of at most 1024 characters."""


class InvalidRequest(errors.InvalidCall, reason="invalid_request"):
    """422: A field is missing, unknown, of the wrong type or out of range; `errors` names each one."""


class IdempotencyKeyReused(errors.InvalidCall, reason="idempotency_key_reused"):
    """422: This key was used with another request."""


class RestockNeedsFullRefund(errors.InvalidCall, reason="restock_needs_full_refund"):
    """422: Units return only with a full refund."""


class HeadersTooLarge(errors.InvalidCall, reason="headers_too_large"):
    """431: Send at most 65536 bytes of headers."""

# Generated from the endpoint table by `make docs`. Do not edit.

"""Reasons below `NotFound`."""

from holdfast.client import errors


class NotFound(errors.NotFound, reason="not_found"):
    """404: There is nothing at this address. See /docs."""


class SkuNotFound(errors.NotFound, reason="sku_not_found"):
    """404: There is no pool for this SKU."""


class SaleNotFound(errors.NotFound, reason="sale_not_found"):
    """404: There is no sale with this ID."""


class ReservationNotFound(errors.NotFound, reason="reservation_not_found"):
    """404: No reservation with this ID is visible to you."""


class OrderNotFound(errors.NotFound, reason="order_not_found"):
    """404: No order with this ID is visible to you."""


class WebhookNotFound(errors.NotFound, reason="webhook_not_found"):
    """404: There is no webhook with this ID."""


class DeliveryNotFound(errors.NotFound, reason="delivery_not_found"):
    """404: This webhook has no delivery with this ID."""


class KeyNotFound(errors.NotFound, reason="key_not_found"):
    """404: There is no service key with this ID."""


class ParkedNotFound(errors.NotFound, reason="parked_not_found"):
    """404: Nothing is parked under this ID, or not any more."""


class DropNotFound(errors.NotFound, reason="drop_not_found"):
    """404: There is no drop with this ID."""


class ContactNotFound(errors.NotFound, reason="contact_not_found"):
    """404: This buyer has not asked for messages."""


class MessageNotFound(errors.NotFound, reason="message_not_found"):
    """404: There is no message with this ID."""


class OperatorNotFound(errors.NotFound, reason="operator_not_found"):
    """404: There is no operator with this ID."""


class SessionNotFound(errors.NotFound, reason="session_not_found"):
    """404: There is no session with this ID now."""


class InvitationNotFound(errors.NotFound, reason="invitation_not_found"):
    """404: It was used, has expired or was replaced by a newer one."""


class ApprovalNotFound(errors.NotFound, reason="approval_not_found"):
    """404: There is no request with this ID."""


class ReservationLost(errors.NotFound, reason="reservation_lost"):
    """410: It was granted, and lost when the stock was restored after a failure. Nothing was sold or charged."""

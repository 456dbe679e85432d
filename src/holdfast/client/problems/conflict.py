# Generated from the endpoint table by `make docs`. Do not edit.

"""Reasons below `Conflict`."""

from holdfast.client import errors


class InsufficientInventory(errors.Conflict, reason="insufficient_inventory"):
    """409: Fewer units are free than were asked for."""


class AllHeld(errors.Conflict, reason="all_held"):
    """409: No unit is free now; some are held and may come back."""


class SoldOut(errors.Conflict, reason="sold_out"):
    """409: Every unit is sold."""


class BuyerLimit(errors.Conflict, reason="buyer_limit"):
    """409: This owner may not have more units of this SKU."""


class HoldBudget(errors.Conflict, reason="hold_budget"):
    """409: This owner let too many holds lapse unpaid."""


class ExtensionLimit(errors.Conflict, reason="extension_limit"):
    """409: The hold has reached its maximum time."""


class BelowCommitted(errors.Conflict, reason="below_committed"):
    """409: More units are held or sold than the total would be."""


class ShardsImmutable(errors.Conflict, reason="shards_immutable"):
    """409: A pool's shards are chosen when it is created."""


class SaleNotOpen(errors.Conflict, reason="sale_not_open"):
    """409: The sale has not started."""


class SalePaused(errors.Conflict, reason="sale_paused"):
    """409: The sale is paused."""


class SaleEnded(errors.Conflict, reason="sale_ended"):
    """409: The sale has ended."""


class SaleExists(errors.Conflict, reason="sale_exists"):
    """409: Another sale already has this ID."""


class DropExists(errors.Conflict, reason="drop_exists"):
    """409: Another drop already has this ID."""


class DropFull(errors.Conflict, reason="drop_full"):
    """409: A drop has at most 50 sales."""


class SkuInSale(errors.Conflict, reason="sku_in_sale"):
    """409: This SKU is in another sale that is not closed yet."""


class SaleStarted(errors.Conflict, reason="sale_started"):
    """409: Sale started."""


class OrderFixed(errors.Conflict, reason="order_fixed"):
    """409: The room's order cannot change once somebody is in it, or the sale is about to start."""


class PoolInSale(errors.Conflict, reason="pool_in_sale"):
    """409: A sale runs on this pool; its rules and stock change only through the sale."""


class AddressLimit(errors.Conflict, reason="address_limit"):
    """409: Clients of this address have reached the sale's limit of units per address."""


class AttemptLimit(errors.Conflict, reason="attempt_limit"):
    """409: This buyer has used all purchase attempts of this sale."""


class QuoteExpired(errors.Conflict, reason="quote_expired"):
    """409: The quote is too old; nothing was reserved."""


class QuoteMismatch(errors.Conflict, reason="quote_mismatch"):
    """409: The quote is unknown, or for another purchase."""


class SaleNotLoaded(errors.Conflict, reason="sale_not_loaded"):
    """409: The sale has no pool yet; its `problem` says why."""


class RestockUnknown(errors.Conflict, reason="restock_unknown"):
    """409: The answer to the first request under this key was lost."""


class NoWaitingRoom(errors.Conflict, reason="no_waiting_room"):
    """409: The sale has no waiting room."""


class PlaceReleased(errors.Conflict, reason="place_released"):
    """409: You left, or joined again since."""


class RejoinLimit(errors.Conflict, reason="rejoin_limit"):
    """409: You left this queue too often to join it again."""


class PassExpired(errors.Conflict, reason="pass_expired"):
    """409: You had your turn, and your pass has expired."""


class LotteryNotDrawn(errors.Conflict, reason="lottery_not_drawn"):
    """409: There is no draw yet. The list is published when a lottery opens; other rooms have none."""


class BeaconNotDue(errors.Conflict, reason="beacon_not_due"):
    """409: No public value is awaited."""


class DeviceLimit(errors.Conflict, reason="device_limit"):
    """409: Other accounts joined from this device."""


class OrderNotPaid(errors.Conflict, reason="order_not_paid"):
    """409: The order is not paid, or does not stand any more."""


class OrderFulfilled(errors.Conflict, reason="order_fulfilled"):
    """409: The order was fulfilled with another tracking number."""


class RefundExceedsOrder(errors.Conflict, reason="refund_exceeds_order"):
    """409: The refund is higher than what is left of the order."""


class MoneyIsOut(errors.Conflict, reason="money_is_out"):
    """409: Money was taken, or may have been."""


class TooManyWebhooks(errors.Conflict, reason="too_many_webhooks"):
    """409: The maximum number of webhooks exists."""


class ExternalPayment(errors.Conflict, reason="external_payment"):
    """409: Paid elsewhere."""


class PaymentMethodRequired(errors.Conflict, reason="payment_method_required"):
    """409: The last payment was declined. Its card is not charged again unless the request names it."""


class MessagesOff(errors.Conflict, reason="messages_off"):
    """409: This server sends no messages of this kind."""


class ApprovalRequired(errors.Conflict, reason="approval_required"):
    """409: Nothing was done yet. It is carried out when another operator approves it."""


class ApprovalDecided(errors.Conflict, reason="approval_decided"):
    """409: It was approved or rejected before, or has expired."""


class CellMismatch(errors.Conflict, reason="cell_mismatch"):
    """409: This SKU is in another cell (`cell`), with all its sales."""


class ReservationSettling(errors.Conflict, reason="reservation_settling"):
    """409: The reservation is settling; this is no longer possible."""


class ReservationConfirmed(errors.Conflict, reason="reservation_confirmed"):
    """409: The reservation is confirmed; this is no longer possible."""


class ReservationFailed(errors.Conflict, reason="reservation_failed"):
    """409: The reservation is failed; this is no longer possible."""


class ReservationCancelled(errors.Conflict, reason="reservation_cancelled"):
    """409: The reservation is cancelled; this is no longer possible."""


class ReservationExpired(errors.Conflict, reason="reservation_expired"):
    """409: The reservation is expired; this is no longer possible."""

# Generated from the endpoint table by `make docs`. Do not edit.

"""One method for each operation, and an iterator for each list that has pages."""

from holdfast.client.calls import console as console_calls
from holdfast.client.calls import drops as drops_calls
from holdfast.client.calls import inventory as inventory_calls
from holdfast.client.calls import messages as messages_calls
from holdfast.client.calls import money as money_calls
from holdfast.client.calls import operate as operate_calls
from holdfast.client.calls import purchase as purchase_calls
from holdfast.client.calls import reservations as reservations_calls
from holdfast.client.calls import revocations as revocations_calls
from holdfast.client.calls import room as room_calls
from holdfast.client.calls import sales as sales_calls
from holdfast.client.calls import team as team_calls
from holdfast.client.calls import webhooks as webhooks_calls
from holdfast.client.methods import async_method, async_pages, async_stream
from holdfast.client.types.drops import Drop
from holdfast.client.types.inventory import Reservation
from holdfast.client.types.messages import Message
from holdfast.client.types.operate import Parked
from holdfast.client.types.room import Order
from holdfast.client.types.sales import OperatorSale
from holdfast.client.types.team import Action
from holdfast.client.types.webhooks import Delivery


class AsyncMethods:
    create_pool = async_method(inventory_calls.create_pool)
    available = async_method(inventory_calls.available)
    reserve = async_method(inventory_calls.reserve)
    create_sale = async_method(sales_calls.create_sale)
    list_sales = async_method(sales_calls.list_sales)
    iter_sales = async_pages(sales_calls.list_sales, OperatorSale, "sale_id")
    get_sale = async_method(sales_calls.get_sale)
    change_sale = async_method(sales_calls.change_sale)
    pause_sale = async_method(sales_calls.pause_sale)
    resume_sale = async_method(sales_calls.resume_sale)
    close_sale = async_method(sales_calls.close_sale)
    restock_sale = async_method(sales_calls.restock_sale)
    now = async_method(sales_calls.now)
    challenge = async_method(sales_calls.challenge)
    create_drop = async_method(drops_calls.create_drop)
    list_drops = async_method(drops_calls.list_drops)
    iter_drops = async_pages(drops_calls.list_drops, Drop, "drop_id")
    get_drop = async_method(drops_calls.get_drop)
    change_drop = async_method(drops_calls.change_drop)
    purchase = async_method(purchase_calls.purchase)
    quote = async_method(purchase_calls.quote)
    join = async_method(room_calls.join)
    leave = async_method(room_calls.leave)
    status = async_method(room_calls.status)
    admission = async_method(room_calls.admission)
    mine = async_method(room_calls.mine)
    get_room = async_method(room_calls.get_room)
    change_room = async_method(room_calls.change_room)
    lottery_entries = async_method(room_calls.lottery_entries)
    jwks = async_method(room_calls.jwks)
    list_reservations = async_method(reservations_calls.list_reservations)
    iter_reservations = async_pages(reservations_calls.list_reservations, Reservation, "reservation_id")
    get_reservation = async_method(reservations_calls.get_reservation)
    get_history = async_method(reservations_calls.get_history)
    confirm = async_method(reservations_calls.confirm)
    get_payment = async_method(reservations_calls.get_payment)
    check_payment = async_method(reservations_calls.check_payment)
    extend = async_method(reservations_calls.extend)
    cancel = async_method(reservations_calls.cancel)
    events = async_stream(reservations_calls.events)
    list_orders = async_method(money_calls.list_orders)
    iter_orders = async_pages(money_calls.list_orders, Order, "order_id")
    get_order = async_method(money_calls.get_order)
    fulfil_order = async_method(money_calls.fulfil_order)
    refund_order = async_method(money_calls.refund_order)
    credit_wallet = async_method(money_calls.credit_wallet)
    get_wallet = async_method(money_calls.get_wallet)
    live = async_method(operate_calls.live)
    ready = async_method(operate_calls.ready)
    metrics = async_method(operate_calls.metrics)
    get_features = async_method(operate_calls.get_features)
    get_lag = async_method(operate_calls.get_lag)
    get_pools = async_method(operate_calls.get_pools)
    reconcile = async_method(operate_calls.reconcile)
    list_parked = async_method(operate_calls.list_parked)
    iter_parked = async_pages(operate_calls.list_parked, Parked, "parked_id")
    retry_all_parked = async_method(operate_calls.retry_all_parked)
    retry_parked = async_method(operate_calls.retry_parked)
    drop_parked = async_method(operate_calls.drop_parked)
    compensate = async_method(operate_calls.compensate)
    get_audit = async_method(operate_calls.get_audit)
    get_live = async_method(operate_calls.get_live)
    get_sale_history = async_method(operate_calls.get_sale_history)
    get_funnel = async_method(operate_calls.get_funnel)
    get_health = async_method(operate_calls.get_health)
    list_keys = async_method(operate_calls.list_keys)
    create_key = async_method(operate_calls.create_key)
    revoke_key = async_method(operate_calls.revoke_key)
    list_operators = async_method(team_calls.list_operators)
    invite_operator = async_method(team_calls.invite_operator)
    disable_operator = async_method(team_calls.disable_operator)
    list_sessions = async_method(team_calls.list_sessions)
    revoke_session = async_method(team_calls.revoke_session)
    list_actions = async_method(team_calls.list_actions)
    iter_actions = async_pages(team_calls.list_actions, Action, "action_id")
    list_approvals = async_method(team_calls.list_approvals)
    approve_request = async_method(team_calls.approve_request)
    reject_request = async_method(team_calls.reject_request)
    get_sign_in = async_method(team_calls.get_sign_in)
    sign_in_with_password = async_method(team_calls.sign_in_with_password)
    accept_invitation = async_method(team_calls.accept_invitation)
    list_revocations = async_method(revocations_calls.list_revocations)
    revoke_buyer = async_method(revocations_calls.revoke_buyer)
    restore_buyer = async_method(revocations_calls.restore_buyer)
    revoke_token = async_method(revocations_calls.revoke_token)
    restore_token = async_method(revocations_calls.restore_token)
    create_webhook = async_method(webhooks_calls.create_webhook)
    list_webhooks = async_method(webhooks_calls.list_webhooks)
    get_webhook = async_method(webhooks_calls.get_webhook)
    change_webhook = async_method(webhooks_calls.change_webhook)
    delete_webhook = async_method(webhooks_calls.delete_webhook)
    rotate_secret = async_method(webhooks_calls.rotate_secret)
    list_deliveries = async_method(webhooks_calls.list_deliveries)
    iter_deliveries = async_pages(webhooks_calls.list_deliveries, Delivery, "delivery_id")
    replay = async_method(webhooks_calls.replay)
    send_test = async_method(webhooks_calls.send_test)
    get_contact = async_method(messages_calls.get_contact)
    put_contact = async_method(messages_calls.put_contact)
    delete_contact = async_method(messages_calls.delete_contact)
    list_messages = async_method(messages_calls.list_messages)
    iter_messages = async_pages(messages_calls.list_messages, Message, "message_id")
    resend_message = async_method(messages_calls.resend_message)
    sign_in = async_method(console_calls.sign_in)
    get_session = async_method(console_calls.get_session)
    sign_out = async_method(console_calls.sign_out)

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
from holdfast.client.methods import method, pages, stream
from holdfast.client.types.drops import Drop
from holdfast.client.types.inventory import Reservation
from holdfast.client.types.messages import Message
from holdfast.client.types.operate import Parked
from holdfast.client.types.room import Order
from holdfast.client.types.sales import OperatorSale
from holdfast.client.types.team import Action
from holdfast.client.types.webhooks import Delivery


class Methods:
    create_pool = method(inventory_calls.create_pool)
    available = method(inventory_calls.available)
    reserve = method(inventory_calls.reserve)
    create_sale = method(sales_calls.create_sale)
    list_sales = method(sales_calls.list_sales)
    iter_sales = pages(sales_calls.list_sales, OperatorSale, "sale_id")
    get_sale = method(sales_calls.get_sale)
    change_sale = method(sales_calls.change_sale)
    pause_sale = method(sales_calls.pause_sale)
    resume_sale = method(sales_calls.resume_sale)
    close_sale = method(sales_calls.close_sale)
    restock_sale = method(sales_calls.restock_sale)
    now = method(sales_calls.now)
    challenge = method(sales_calls.challenge)
    create_drop = method(drops_calls.create_drop)
    list_drops = method(drops_calls.list_drops)
    iter_drops = pages(drops_calls.list_drops, Drop, "drop_id")
    get_drop = method(drops_calls.get_drop)
    change_drop = method(drops_calls.change_drop)
    purchase = method(purchase_calls.purchase)
    quote = method(purchase_calls.quote)
    join = method(room_calls.join)
    leave = method(room_calls.leave)
    status = method(room_calls.status)
    admission = method(room_calls.admission)
    mine = method(room_calls.mine)
    get_room = method(room_calls.get_room)
    change_room = method(room_calls.change_room)
    lottery_entries = method(room_calls.lottery_entries)
    jwks = method(room_calls.jwks)
    list_reservations = method(reservations_calls.list_reservations)
    iter_reservations = pages(reservations_calls.list_reservations, Reservation, "reservation_id")
    get_reservation = method(reservations_calls.get_reservation)
    get_history = method(reservations_calls.get_history)
    confirm = method(reservations_calls.confirm)
    get_payment = method(reservations_calls.get_payment)
    check_payment = method(reservations_calls.check_payment)
    extend = method(reservations_calls.extend)
    cancel = method(reservations_calls.cancel)
    events = stream(reservations_calls.events)
    list_orders = method(money_calls.list_orders)
    iter_orders = pages(money_calls.list_orders, Order, "order_id")
    get_order = method(money_calls.get_order)
    fulfil_order = method(money_calls.fulfil_order)
    refund_order = method(money_calls.refund_order)
    credit_wallet = method(money_calls.credit_wallet)
    get_wallet = method(money_calls.get_wallet)
    live = method(operate_calls.live)
    ready = method(operate_calls.ready)
    metrics = method(operate_calls.metrics)
    get_features = method(operate_calls.get_features)
    get_lag = method(operate_calls.get_lag)
    get_pools = method(operate_calls.get_pools)
    reconcile = method(operate_calls.reconcile)
    list_parked = method(operate_calls.list_parked)
    iter_parked = pages(operate_calls.list_parked, Parked, "parked_id")
    retry_all_parked = method(operate_calls.retry_all_parked)
    retry_parked = method(operate_calls.retry_parked)
    drop_parked = method(operate_calls.drop_parked)
    compensate = method(operate_calls.compensate)
    get_audit = method(operate_calls.get_audit)
    get_live = method(operate_calls.get_live)
    get_sale_history = method(operate_calls.get_sale_history)
    get_funnel = method(operate_calls.get_funnel)
    get_health = method(operate_calls.get_health)
    list_keys = method(operate_calls.list_keys)
    create_key = method(operate_calls.create_key)
    revoke_key = method(operate_calls.revoke_key)
    list_operators = method(team_calls.list_operators)
    invite_operator = method(team_calls.invite_operator)
    disable_operator = method(team_calls.disable_operator)
    list_sessions = method(team_calls.list_sessions)
    revoke_session = method(team_calls.revoke_session)
    list_actions = method(team_calls.list_actions)
    iter_actions = pages(team_calls.list_actions, Action, "action_id")
    list_approvals = method(team_calls.list_approvals)
    approve_request = method(team_calls.approve_request)
    reject_request = method(team_calls.reject_request)
    get_sign_in = method(team_calls.get_sign_in)
    sign_in_with_password = method(team_calls.sign_in_with_password)
    accept_invitation = method(team_calls.accept_invitation)
    list_revocations = method(revocations_calls.list_revocations)
    revoke_buyer = method(revocations_calls.revoke_buyer)
    restore_buyer = method(revocations_calls.restore_buyer)
    revoke_token = method(revocations_calls.revoke_token)
    restore_token = method(revocations_calls.restore_token)
    create_webhook = method(webhooks_calls.create_webhook)
    list_webhooks = method(webhooks_calls.list_webhooks)
    get_webhook = method(webhooks_calls.get_webhook)
    change_webhook = method(webhooks_calls.change_webhook)
    delete_webhook = method(webhooks_calls.delete_webhook)
    rotate_secret = method(webhooks_calls.rotate_secret)
    list_deliveries = method(webhooks_calls.list_deliveries)
    iter_deliveries = pages(webhooks_calls.list_deliveries, Delivery, "delivery_id")
    replay = method(webhooks_calls.replay)
    send_test = method(webhooks_calls.send_test)
    get_contact = method(messages_calls.get_contact)
    put_contact = method(messages_calls.put_contact)
    delete_contact = method(messages_calls.delete_contact)
    list_messages = method(messages_calls.list_messages)
    iter_messages = pages(messages_calls.list_messages, Message, "message_id")
    resend_message = method(messages_calls.resend_message)
    sign_in = method(console_calls.sign_in)
    get_session = method(console_calls.get_session)
    sign_out = method(console_calls.sign_out)

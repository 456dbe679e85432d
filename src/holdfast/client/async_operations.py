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
    """Create a pool, or set its total."""
    available = async_method(inventory_calls.available)
    """How many units are free, held and sold."""
    reserve = async_method(inventory_calls.reserve)
    """Hold units for an owner until a deadline."""
    create_sale = async_method(sales_calls.create_sale)
    """Create a sale and load its pool."""
    list_sales = async_method(sales_calls.list_sales)
    """List sales, by ID."""
    iter_sales = async_pages(sales_calls.list_sales, OperatorSale, "sale_id")
    """List sales, by ID."""
    get_sale = async_method(sales_calls.get_sale)
    """The public facts of a sale."""
    change_sale = async_method(sales_calls.change_sale)
    """Change a sale."""
    pause_sale = async_method(sales_calls.pause_sale)
    """Pause new reservations."""
    resume_sale = async_method(sales_calls.resume_sale)
    """Resume a paused sale."""
    close_sale = async_method(sales_calls.close_sale)
    """End a sale now, permanently."""
    restock_sale = async_method(sales_calls.restock_sale)
    """Add units, or remove free ones."""
    now = async_method(sales_calls.now)
    """The current state of a sale."""
    challenge = async_method(sales_calls.challenge)
    """A challenge to solve before joining."""
    create_drop = async_method(drops_calls.create_drop)
    """Create a drop."""
    list_drops = async_method(drops_calls.list_drops)
    """List drops, by ID."""
    iter_drops = async_pages(drops_calls.list_drops, Drop, "drop_id")
    """List drops, by ID."""
    get_drop = async_method(drops_calls.get_drop)
    """What a drop sells, and when."""
    change_drop = async_method(drops_calls.change_drop)
    """Change a drop."""
    purchase = async_method(purchase_calls.purchase)
    """Reserve units, or pay for them at once."""
    quote = async_method(purchase_calls.quote)
    """Fix what a purchase will cost."""
    join = async_method(room_calls.join)
    """Join the queue."""
    leave = async_method(room_calls.leave)
    """Leave the queue."""
    status = async_method(room_calls.status)
    """Look at your place."""
    admission = async_method(room_calls.admission)
    """Ask for a pass."""
    mine = async_method(room_calls.mine)
    """What you have in this sale."""
    get_room = async_method(room_calls.get_room)
    """The queue and its pace."""
    change_room = async_method(room_calls.change_room)
    """Set the rate, pause the queue, admit people."""
    lottery_entries = async_method(room_calls.lottery_entries)
    """The closed list of a lottery."""
    jwks = async_method(room_calls.jwks)
    """The public keys of passes."""
    list_reservations = async_method(reservations_calls.list_reservations)
    """List reservations, newest first."""
    iter_reservations = async_pages(reservations_calls.list_reservations, Reservation, "reservation_id")
    """List reservations, newest first."""
    get_reservation = async_method(reservations_calls.get_reservation)
    """One reservation."""
    get_history = async_method(reservations_calls.get_history)
    """The history of a reservation."""
    confirm = async_method(reservations_calls.confirm)
    """Mark the units as sold; for a buyer: start to pay."""
    get_payment = async_method(reservations_calls.get_payment)
    """What its payment needs next."""
    check_payment = async_method(reservations_calls.check_payment)
    """Check the payment now, after the buyer returned from the bank."""
    extend = async_method(reservations_calls.extend)
    """Hold the units longer."""
    cancel = async_method(reservations_calls.cancel)
    """Return the units."""
    events = async_stream(reservations_calls.events)
    """Stream the events of a reservation."""
    list_orders = async_method(money_calls.list_orders)
    """List orders, newest first."""
    iter_orders = async_pages(money_calls.list_orders, Order, "order_id")
    """List orders, newest first."""
    get_order = async_method(money_calls.get_order)
    """One order."""
    fulfil_order = async_method(money_calls.fulfil_order)
    """Mark a paid order as sent to its buyer."""
    refund_order = async_method(money_calls.refund_order)
    """Refund an order, or part of it."""
    credit_wallet = async_method(money_calls.credit_wallet)
    """Add money to a buyer's wallet."""
    get_wallet = async_method(money_calls.get_wallet)
    """A buyer's balances."""
    live = async_method(operate_calls.live)
    """The process runs."""
    ready = async_method(operate_calls.ready)
    """Readiness: can sales be served?."""
    metrics = async_method(operate_calls.metrics)
    """Metrics for Prometheus."""
    get_features = async_method(operate_calls.get_features)
    """What is on, and what is off right now."""
    get_lag = async_method(operate_calls.get_lag)
    """How far background work is behind."""
    get_pools = async_method(operate_calls.get_pools)
    """Consistency of every pool, within itself and between gate and ledger."""
    reconcile = async_method(operate_calls.reconcile)
    """Check every pool and every payment now."""
    list_parked = async_method(operate_calls.list_parked)
    """What needs attention, and why."""
    iter_parked = async_pages(operate_calls.list_parked, Parked, "parked_id")
    """What needs attention, and why."""
    retry_all_parked = async_method(operate_calls.retry_all_parked)
    """Retry everything of a kind."""
    retry_parked = async_method(operate_calls.retry_parked)
    """Retry an item from its current step."""
    drop_parked = async_method(operate_calls.drop_parked)
    """Discard an item, if no money was taken."""
    compensate = async_method(operate_calls.compensate)
    """Report that more was sold than can be delivered, and apply the sale's policy."""
    get_audit = async_method(operate_calls.get_audit)
    """What happened to a buyer, refusals included."""
    get_live = async_method(operate_calls.get_live)
    """Live figures of a sale, to poll every second."""
    get_sale_history = async_method(operate_calls.get_sale_history)
    """The history of a sale: its counts, and operators' actions."""
    get_funnel = async_method(operate_calls.get_funnel)
    """The conversion funnel of a sale, and why visitors were refused."""
    get_health = async_method(operate_calls.get_health)
    """The state of each dependency."""
    list_keys = async_method(operate_calls.list_keys)
    """List service keys, revoked ones included."""
    create_key = async_method(operate_calls.create_key)
    """Create a service key."""
    revoke_key = async_method(operate_calls.revoke_key)
    """Revoke a service key."""
    list_operators = async_method(team_calls.list_operators)
    """List operators, disabled ones included."""
    invite_operator = async_method(team_calls.invite_operator)
    """Invite an operator."""
    disable_operator = async_method(team_calls.disable_operator)
    """Disable an operator."""
    list_sessions = async_method(team_calls.list_sessions)
    """List console sessions."""
    revoke_session = async_method(team_calls.revoke_session)
    """End a console session."""
    list_actions = async_method(team_calls.list_actions)
    """List operators' actions, newest first."""
    iter_actions = async_pages(team_calls.list_actions, Action, "action_id")
    """List operators' actions, newest first."""
    list_approvals = async_method(team_calls.list_approvals)
    """List requests that wait for a second operator, newest first."""
    approve_request = async_method(team_calls.approve_request)
    """Approve what another operator asked for, and carry it out."""
    reject_request = async_method(team_calls.reject_request)
    """Reject what another operator asked for, or withdraw your own request."""
    get_sign_in = async_method(team_calls.get_sign_in)
    """How operators can sign in."""
    sign_in_with_password = async_method(team_calls.sign_in_with_password)
    """Sign in to the console as an operator."""
    accept_invitation = async_method(team_calls.accept_invitation)
    """Set a password with an invitation, and sign in."""
    list_revocations = async_method(revocations_calls.list_revocations)
    """Buyers and tokens that are revoked, newest first."""
    revoke_buyer = async_method(revocations_calls.revoke_buyer)
    """Refuse every token of a buyer."""
    restore_buyer = async_method(revocations_calls.restore_buyer)
    """Accept a buyer's tokens again."""
    revoke_token = async_method(revocations_calls.revoke_token)
    """Refuse one token of a buyer, by its `jti`."""
    restore_token = async_method(revocations_calls.restore_token)
    """Accept a token again."""
    create_webhook = async_method(webhooks_calls.create_webhook)
    """Create a webhook."""
    list_webhooks = async_method(webhooks_calls.list_webhooks)
    """List webhooks."""
    get_webhook = async_method(webhooks_calls.get_webhook)
    """One webhook."""
    change_webhook = async_method(webhooks_calls.change_webhook)
    """Change, disable or enable a webhook."""
    delete_webhook = async_method(webhooks_calls.delete_webhook)
    """Remove a webhook and its deliveries."""
    rotate_secret = async_method(webhooks_calls.rotate_secret)
    """A new secret."""
    list_deliveries = async_method(webhooks_calls.list_deliveries)
    """List deliveries, newest first."""
    iter_deliveries = async_pages(webhooks_calls.list_deliveries, Delivery, "delivery_id")
    """List deliveries, newest first."""
    replay = async_method(webhooks_calls.replay)
    """Send again."""
    send_test = async_method(webhooks_calls.send_test)
    """Send a test event."""
    get_contact = async_method(messages_calls.get_contact)
    """Where you get messages."""
    put_contact = async_method(messages_calls.put_contact)
    """Ask for messages."""
    delete_contact = async_method(messages_calls.delete_contact)
    """End all messages."""
    list_messages = async_method(messages_calls.list_messages)
    """What was sent to buyers, newest first."""
    iter_messages = async_pages(messages_calls.list_messages, Message, "message_id")
    """What was sent to buyers, newest first."""
    resend_message = async_method(messages_calls.resend_message)
    """Resend a message that failed, was dropped or may be lost."""
    sign_in = async_method(console_calls.sign_in)
    """Sign in to the console with a service key."""
    get_session = async_method(console_calls.get_session)
    """Who is signed in."""
    sign_out = async_method(console_calls.sign_out)
    """Sign out."""

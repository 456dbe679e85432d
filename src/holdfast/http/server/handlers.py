"""Which handler answers which endpoint. The router refuses to start unless this is total over the table."""

from holdfast.bootstrap.services import Services
from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.endpoints import console as console_table
from holdfast.http.contract.endpoints import drops as drops_table
from holdfast.http.contract.endpoints import inventory as inventory_table
from holdfast.http.contract.endpoints import messages as messages_table
from holdfast.http.contract.endpoints import money as money_table
from holdfast.http.contract.endpoints import operate as operate_table
from holdfast.http.contract.endpoints import pages as pages_table
from holdfast.http.contract.endpoints import purchase as purchase_table
from holdfast.http.contract.endpoints import reservations as reservations_table
from holdfast.http.contract.endpoints import revocations as revocations_table
from holdfast.http.contract.endpoints import room as room_table
from holdfast.http.contract.endpoints import sales as sales_table
from holdfast.http.contract.endpoints import team as team_table
from holdfast.http.contract.endpoints import webhooks as webhooks_table
from holdfast.http.endpoints.audit import AuditEndpoint
from holdfast.http.endpoints.console import ConsoleEndpoints
from holdfast.http.endpoints.events import EventEndpoint
from holdfast.http.endpoints.health import HealthEndpoints
from holdfast.http.endpoints.inventory import InventoryEndpoints
from holdfast.http.endpoints.keys import KeyEndpoints
from holdfast.http.endpoints.live import LiveEndpoint
from holdfast.http.endpoints.lottery import LotteryEndpoint
from holdfast.http.endpoints.messages.contacts import ContactEndpoints
from holdfast.http.endpoints.messages.log import MessageLogEndpoints
from holdfast.http.endpoints.money import PaymentNoticeEndpoints, PaymentStepEndpoints, WalletEndpoints
from holdfast.http.endpoints.now import NowEndpoint
from holdfast.http.endpoints.operate import OperateEndpoints
from holdfast.http.endpoints.ops.drops import DropEndpoints
from holdfast.http.endpoints.ops.features import FeaturesEndpoint
from holdfast.http.endpoints.ops.funnel import FunnelEndpoint
from holdfast.http.endpoints.ops.lag import LagEndpoint
from holdfast.http.endpoints.ops.sale_history import SaleHistoryEndpoint
from holdfast.http.endpoints.orders import OrderEndpoints
from holdfast.http.endpoints.parked import ParkedEndpoints
from holdfast.http.endpoints.people.approvals import ApprovalEndpoints, Approvals
from holdfast.http.endpoints.people.auditing import Auditor, may_be_audited
from holdfast.http.endpoints.people.operators import TeamEndpoints
from holdfast.http.endpoints.people.revocations import RevocationEndpoints
from holdfast.http.endpoints.people.sign_in import SignInEndpoints
from holdfast.http.endpoints.purchase import PurchaseEndpoint, QuoteEndpoint
from holdfast.http.endpoints.reservations import ReservationEndpoints
from holdfast.http.endpoints.room import RoomEndpoints
from holdfast.http.endpoints.room_control import RoomControlEndpoints
from holdfast.http.endpoints.sales import SaleEndpoints
from holdfast.http.endpoints.webhooks import WebhookEndpoints
from holdfast.http.protection.admission import AdmissionControl
from holdfast.http.protection.sign_in_limits import SignInLimits
from holdfast.http.server.router import Handler
from holdfast.http.web import docs, pages
from holdfast.http.web.demo import DemoPages
from holdfast.http.web.front import FrontPage
from holdfast.http.web.storefront import StorefrontPages
from holdfast.http.web.unsubscribe import UnsubscribePages


def handlers_of(services: Services, admission: AdmissionControl) -> dict[Endpoint, Handler]:
    found = {
        **_stock(services, admission),
        **_sales(services, admission),
        **_money(services),
        **_operate(services, admission),
        **_team(services, admission),
        **_webhooks(services),
        **_messages(services),
        **_pages(services),
    }
    auditor = Auditor(services.database, services.control.database)
    approvals = Approvals(services, auditor)
    found = {**approvals.guard(found), **_approvals(ApprovalEndpoints(approvals))}
    optional = {endpoint: admission.shedder.optional(found[endpoint]) for endpoint in found if endpoint.is_optional}
    audited = {endpoint: auditor.audited(endpoint, found[endpoint]) for endpoint in found if may_be_audited(endpoint)}
    return {**found, **optional, **audited}


def _stock(services: Services, admission: AdmissionControl) -> dict[Endpoint, Handler]:
    inventory = InventoryEndpoints(services, admission.reaper)
    reservations = ReservationEndpoints(services, admission.reaper)
    payment_steps = PaymentStepEndpoints(services, reservations)
    return {
        inventory_table.PUT_POOL: inventory.put,
        inventory_table.AVAILABLE: inventory.available,
        inventory_table.RESERVE: inventory.reserve,
        reservations_table.LIST_RESERVATIONS: reservations.list,
        reservations_table.GET_RESERVATION: reservations.get,
        reservations_table.GET_HISTORY: reservations.history,
        reservations_table.CONFIRM: reservations.confirm,
        reservations_table.GET_PAYMENT: payment_steps.next,
        reservations_table.CHECK_PAYMENT: payment_steps.returned,
        reservations_table.EXTEND: reservations.extend,
        reservations_table.CANCEL: reservations.cancel,
        reservations_table.EVENTS: EventEndpoint(services, reservations, admission.shedder).events,
    }


def _sales(services: Services, admission: AdmissionControl) -> dict[Endpoint, Handler]:
    sales, room, control = SaleEndpoints(services), RoomEndpoints(services, admission), RoomControlEndpoints(services)
    drops = DropEndpoints(services)
    return {
        drops_table.CREATE_DROP: drops.create,
        drops_table.LIST_DROPS: drops.list,
        drops_table.GET_DROP: drops.get,
        drops_table.CHANGE_DROP: drops.change,
        sales_table.CREATE_SALE: sales.create,
        sales_table.LIST_SALES: sales.list,
        sales_table.GET_SALE: sales.get,
        sales_table.CHANGE_SALE: sales.change,
        sales_table.PAUSE_SALE: sales.pause,
        sales_table.RESUME_SALE: sales.resume,
        sales_table.CLOSE_SALE: sales.close,
        sales_table.RESTOCK_SALE: sales.restock,
        sales_table.NOW: NowEndpoint(services).now,
        sales_table.CHALLENGE: room.challenge,
        purchase_table.PURCHASE: PurchaseEndpoint(services, admission).purchase,
        purchase_table.QUOTE: QuoteEndpoint(services).quote,
        room_table.JOIN: room.join,
        room_table.LEAVE: room.leave,
        room_table.STATUS: room.status,
        room_table.ADMISSION: room.admit,
        room_table.MINE: room.mine,
        room_table.GET_ROOM: control.show,
        room_table.CHANGE_ROOM: control.change,
        room_table.JWKS: control.jwks,
        room_table.LOTTERY_ENTRIES: LotteryEndpoint(services).entries,
    }


def _money(services: Services) -> dict[Endpoint, Handler]:
    orders, wallets, notices = OrderEndpoints(services), WalletEndpoints(services), PaymentNoticeEndpoints(services)
    return {
        money_table.LIST_ORDERS: orders.list,
        money_table.GET_ORDER: orders.get,
        money_table.FULFIL_ORDER: orders.fulfil,
        money_table.REFUND_ORDER: orders.refund,
        money_table.CREDIT_WALLET: wallets.credit,
        money_table.GET_WALLET: wallets.get,
        money_table.SANDBOX_WEBHOOK: notices.sandbox,
        money_table.STRIPE_WEBHOOK: notices.stripe,
    }


def _operate(services: Services, admission: AdmissionControl) -> dict[Endpoint, Handler]:
    shedder = admission.shedder
    health, operate = HealthEndpoints(services, shedder), OperateEndpoints(services)
    parked, keys, console = ParkedEndpoints(services), KeyEndpoints(services), ConsoleEndpoints(services)
    return {
        operate_table.LIVE: health.live,
        operate_table.READY: health.ready,
        operate_table.GET_HEALTH: health.dependencies,
        operate_table.METRICS: operate.metrics,
        operate_table.FEATURES: FeaturesEndpoint(services, shedder).features,
        operate_table.GET_LAG: LagEndpoint(services).lag,
        operate_table.GET_POOLS: operate.pools,
        operate_table.RECONCILE: operate.reconcile,
        operate_table.LIST_PARKED: parked.list,
        operate_table.RETRY_ALL_PARKED: parked.retry_all,
        operate_table.RETRY_PARKED: parked.retry,
        operate_table.DROP_PARKED: parked.drop,
        operate_table.COMPENSATE: parked.compensate,
        operate_table.GET_AUDIT: AuditEndpoint(services, shedder).search,
        operate_table.GET_LIVE: LiveEndpoint(services, shedder).live,
        operate_table.GET_SALE_HISTORY: SaleHistoryEndpoint(services).history,
        operate_table.GET_FUNNEL: FunnelEndpoint(services).funnel,
        operate_table.LIST_KEYS: keys.list,
        operate_table.CREATE_KEY: keys.create,
        operate_table.REVOKE_KEY: keys.revoke,
        console_table.SIGN_IN: console.sign_in,
        console_table.GET_SESSION: console.show,
        console_table.SIGN_OUT: console.sign_out,
    }


def _team(services: Services, admission: AdmissionControl) -> dict[Endpoint, Handler]:
    team, sign_in = TeamEndpoints(services), SignInEndpoints(services, SignInLimits(admission.addresses))
    revocations = RevocationEndpoints(services)
    return {
        team_table.LIST_OPERATORS: team.operators,
        team_table.INVITE_OPERATOR: team.invite,
        team_table.DISABLE_OPERATOR: team.disable,
        team_table.LIST_SESSIONS: team.sessions,
        team_table.REVOKE_SESSION: team.revoke,
        team_table.LIST_ACTIONS: team.actions,
        revocations_table.LIST_REVOCATIONS: revocations.list,
        revocations_table.REVOKE_BUYER: revocations.revoke_buyer,
        revocations_table.RESTORE_BUYER: revocations.restore_buyer,
        revocations_table.REVOKE_TOKEN: revocations.revoke_token,
        revocations_table.RESTORE_TOKEN: revocations.restore_token,
        team_table.GET_SIGN_IN: sign_in.options,
        team_table.SIGN_IN_WITH_PASSWORD: sign_in.with_password,
        team_table.ACCEPT_INVITATION: sign_in.accept,
        team_table.BEGIN_OIDC: sign_in.begin_oidc,
        team_table.FINISH_OIDC: sign_in.finish_oidc,
    }


def _approvals(approvals: ApprovalEndpoints) -> dict[Endpoint, Handler]:
    return {
        team_table.LIST_APPROVALS: approvals.list,
        team_table.APPROVE: approvals.approve,
        team_table.REJECT: approvals.reject,
    }


def _webhooks(services: Services) -> dict[Endpoint, Handler]:
    webhooks = WebhookEndpoints(services)
    return {
        webhooks_table.CREATE_WEBHOOK: webhooks.create,
        webhooks_table.LIST_WEBHOOKS: webhooks.list,
        webhooks_table.GET_WEBHOOK: webhooks.get,
        webhooks_table.CHANGE_WEBHOOK: webhooks.change,
        webhooks_table.DELETE_WEBHOOK: webhooks.remove,
        webhooks_table.ROTATE_SECRET: webhooks.rotate,
        webhooks_table.LIST_DELIVERIES: webhooks.deliveries,
        webhooks_table.REPLAY: webhooks.replay,
        webhooks_table.SEND_TEST: webhooks.send_test,
    }


def _messages(services: Services) -> dict[Endpoint, Handler]:
    contacts, log, pages = ContactEndpoints(services), MessageLogEndpoints(services), UnsubscribePages(services)
    return {
        messages_table.GET_CONTACT: contacts.get_contact,
        messages_table.PUT_CONTACT: contacts.put_contact,
        messages_table.DELETE_CONTACT: contacts.delete_contact,
        messages_table.LIST_MESSAGES: log.list,
        messages_table.RESEND_MESSAGE: log.resend,
        messages_table.UNSUBSCRIBE_PAGE: pages.ask,
        messages_table.UNSUBSCRIBE: pages.unsubscribe,
    }


def _pages(services: Services) -> dict[Endpoint, Handler]:
    storefront = StorefrontPages(services)
    found: dict[Endpoint, Handler] = {
        pages_table.FRONT: FrontPage(services).front,
        pages_table.FAVICON: pages.favicon,
        pages_table.DOCS: docs.docs,
        pages_table.OPENAPI: docs.openapi,
        pages_table.CONSOLE: pages.console,
        pages_table.STOREFRONT: storefront.storefront,
        pages_table.STORE_CONFIG: storefront.config,
        pages_table.LOTTERY: pages.lottery,
        pages_table.ASSETS: pages.assets,
    }
    if services.settings.demo:
        found[pages_table.DEMO_IDENTITY] = DemoPages(services).identity
    return found

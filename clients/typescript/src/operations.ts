// Generated from the endpoint table by `make docs`. Do not edit.

import type { Call, StreamEvent } from "./call.js";
import type { Action, Delivery, Drop, Message, OperatorSale, Order, Parked, Reservation } from "./types.js";
import * as inventory from "./calls/inventory.js";
import * as sales from "./calls/sales.js";
import * as drops from "./calls/drops.js";
import * as purchase from "./calls/purchase.js";
import * as room from "./calls/room.js";
import * as reservations from "./calls/reservations.js";
import * as money from "./calls/money.js";
import * as operate from "./calls/operate.js";
import * as team from "./calls/team.js";
import * as revocations from "./calls/revocations.js";
import * as webhooks from "./calls/webhooks.js";
import * as messages from "./calls/messages.js";
import * as console from "./calls/console.js";

/** One method for each operation, and an iterator for each list that has pages. */
export abstract class Operations {
  abstract run<T>(call: Call<T>): Promise<T>;
  abstract stream(call: Call<never>): AsyncGenerator<StreamEvent>;
  protected abstract pages<T>(
    next: (after?: string) => Call<{ data: T[]; has_more: boolean }>, cursor: keyof T,
  ): AsyncGenerator<T>;

  /** Create a pool, or set its total. */
  createPool(...args: Parameters<typeof inventory.createPool>) { return this.run(inventory.createPool(...args)); }
  /** How many units are free, held and sold. */
  available(...args: Parameters<typeof inventory.available>) { return this.run(inventory.available(...args)); }
  /** Hold units for an owner until a deadline. */
  reserve(...args: Parameters<typeof inventory.reserve>) { return this.run(inventory.reserve(...args)); }
  /** Create a sale and load its pool. */
  createSale(...args: Parameters<typeof sales.createSale>) { return this.run(sales.createSale(...args)); }
  /** List sales, by ID. */
  listSales(...args: Parameters<typeof sales.listSales>) { return this.run(sales.listSales(...args)); }
  iterSales(args: Parameters<typeof sales.listSales>[0] = {}) {
    return this.pages<OperatorSale>((after) => sales.listSales({ ...args, ...(after === undefined ? {} : { starting_after: after }) }), "sale_id");
  }
  /** The public facts of a sale. */
  getSale(...args: Parameters<typeof sales.getSale>) { return this.run(sales.getSale(...args)); }
  /** Change a sale. */
  changeSale(...args: Parameters<typeof sales.changeSale>) { return this.run(sales.changeSale(...args)); }
  /** Pause new reservations. */
  pauseSale(...args: Parameters<typeof sales.pauseSale>) { return this.run(sales.pauseSale(...args)); }
  /** Resume a paused sale. */
  resumeSale(...args: Parameters<typeof sales.resumeSale>) { return this.run(sales.resumeSale(...args)); }
  /** End a sale now, permanently. */
  closeSale(...args: Parameters<typeof sales.closeSale>) { return this.run(sales.closeSale(...args)); }
  /** Add units, or remove free ones. */
  restockSale(...args: Parameters<typeof sales.restockSale>) { return this.run(sales.restockSale(...args)); }
  /** The current state of a sale. */
  now(...args: Parameters<typeof sales.now>) { return this.run(sales.now(...args)); }
  /** A challenge to solve before joining. */
  challenge(...args: Parameters<typeof sales.challenge>) { return this.run(sales.challenge(...args)); }
  /** Create a drop. */
  createDrop(...args: Parameters<typeof drops.createDrop>) { return this.run(drops.createDrop(...args)); }
  /** List drops, by ID. */
  listDrops(...args: Parameters<typeof drops.listDrops>) { return this.run(drops.listDrops(...args)); }
  iterDrops(args: Parameters<typeof drops.listDrops>[0] = {}) {
    return this.pages<Drop>((after) => drops.listDrops({ ...args, ...(after === undefined ? {} : { starting_after: after }) }), "drop_id");
  }
  /** What a drop sells, and when. */
  getDrop(...args: Parameters<typeof drops.getDrop>) { return this.run(drops.getDrop(...args)); }
  /** Change a drop. */
  changeDrop(...args: Parameters<typeof drops.changeDrop>) { return this.run(drops.changeDrop(...args)); }
  /** Reserve units, or pay for them at once. */
  purchase(...args: Parameters<typeof purchase.purchase>) { return this.run(purchase.purchase(...args)); }
  /** Fix what a purchase will cost. */
  quote(...args: Parameters<typeof purchase.quote>) { return this.run(purchase.quote(...args)); }
  /** Join the queue. */
  join(...args: Parameters<typeof room.join>) { return this.run(room.join(...args)); }
  /** Leave the queue. */
  leave(...args: Parameters<typeof room.leave>) { return this.run(room.leave(...args)); }
  /** Look at your place. */
  status(...args: Parameters<typeof room.status>) { return this.run(room.status(...args)); }
  /** Ask for a pass. */
  admission(...args: Parameters<typeof room.admission>) { return this.run(room.admission(...args)); }
  /** What you have in this sale. */
  mine(...args: Parameters<typeof room.mine>) { return this.run(room.mine(...args)); }
  /** The queue and its pace. */
  getRoom(...args: Parameters<typeof room.getRoom>) { return this.run(room.getRoom(...args)); }
  /** Set the rate, pause the queue, admit people. */
  changeRoom(...args: Parameters<typeof room.changeRoom>) { return this.run(room.changeRoom(...args)); }
  /** The closed list of a lottery. */
  lotteryEntries(...args: Parameters<typeof room.lotteryEntries>) { return this.run(room.lotteryEntries(...args)); }
  /** The public keys of passes. */
  jwks(...args: Parameters<typeof room.jwks>) { return this.run(room.jwks(...args)); }
  /** List reservations, newest first. */
  listReservations(...args: Parameters<typeof reservations.listReservations>) { return this.run(reservations.listReservations(...args)); }
  iterReservations(args: Parameters<typeof reservations.listReservations>[0] = {}) {
    return this.pages<Reservation>((after) => reservations.listReservations({ ...args, ...(after === undefined ? {} : { starting_after: after }) }), "reservation_id");
  }
  /** One reservation. */
  getReservation(...args: Parameters<typeof reservations.getReservation>) { return this.run(reservations.getReservation(...args)); }
  /** The history of a reservation. */
  getHistory(...args: Parameters<typeof reservations.getHistory>) { return this.run(reservations.getHistory(...args)); }
  /** Mark the units as sold; for a buyer: start to pay. */
  confirm(...args: Parameters<typeof reservations.confirm>) { return this.run(reservations.confirm(...args)); }
  /** What its payment needs next. */
  getPayment(...args: Parameters<typeof reservations.getPayment>) { return this.run(reservations.getPayment(...args)); }
  /** Check the payment now, after the buyer returned from the bank. */
  checkPayment(...args: Parameters<typeof reservations.checkPayment>) { return this.run(reservations.checkPayment(...args)); }
  /** Hold the units longer. */
  extend(...args: Parameters<typeof reservations.extend>) { return this.run(reservations.extend(...args)); }
  /** Return the units. */
  cancel(...args: Parameters<typeof reservations.cancel>) { return this.run(reservations.cancel(...args)); }
  /** Stream the events of a reservation. */
  events(...args: Parameters<typeof reservations.events>) { return this.stream(reservations.events(...args)); }
  /** List orders, newest first. */
  listOrders(...args: Parameters<typeof money.listOrders>) { return this.run(money.listOrders(...args)); }
  iterOrders(args: Parameters<typeof money.listOrders>[0] = {}) {
    return this.pages<Order>((after) => money.listOrders({ ...args, ...(after === undefined ? {} : { starting_after: after }) }), "order_id");
  }
  /** One order. */
  getOrder(...args: Parameters<typeof money.getOrder>) { return this.run(money.getOrder(...args)); }
  /** Mark a paid order as sent to its buyer. */
  fulfilOrder(...args: Parameters<typeof money.fulfilOrder>) { return this.run(money.fulfilOrder(...args)); }
  /** Refund an order, or part of it. */
  refundOrder(...args: Parameters<typeof money.refundOrder>) { return this.run(money.refundOrder(...args)); }
  /** Add money to a buyer's wallet. */
  creditWallet(...args: Parameters<typeof money.creditWallet>) { return this.run(money.creditWallet(...args)); }
  /** A buyer's balances. */
  getWallet(...args: Parameters<typeof money.getWallet>) { return this.run(money.getWallet(...args)); }
  /** The process runs. */
  live(...args: Parameters<typeof operate.live>) { return this.run(operate.live(...args)); }
  /** Readiness: can sales be served?. */
  ready(...args: Parameters<typeof operate.ready>) { return this.run(operate.ready(...args)); }
  /** Metrics for Prometheus. */
  metrics(...args: Parameters<typeof operate.metrics>) { return this.run(operate.metrics(...args)); }
  /** What is on, and what is off right now. */
  getFeatures(...args: Parameters<typeof operate.getFeatures>) { return this.run(operate.getFeatures(...args)); }
  /** How far background work is behind. */
  getLag(...args: Parameters<typeof operate.getLag>) { return this.run(operate.getLag(...args)); }
  /** Consistency of every pool, within itself and between gate and ledger. */
  getPools(...args: Parameters<typeof operate.getPools>) { return this.run(operate.getPools(...args)); }
  /** Check every pool and every payment now. */
  reconcile(...args: Parameters<typeof operate.reconcile>) { return this.run(operate.reconcile(...args)); }
  /** What needs attention, and why. */
  listParked(...args: Parameters<typeof operate.listParked>) { return this.run(operate.listParked(...args)); }
  iterParked(args: Parameters<typeof operate.listParked>[0] = {}) {
    return this.pages<Parked>((after) => operate.listParked({ ...args, ...(after === undefined ? {} : { starting_after: after }) }), "parked_id");
  }
  /** Retry everything of a kind. */
  retryAllParked(...args: Parameters<typeof operate.retryAllParked>) { return this.run(operate.retryAllParked(...args)); }
  /** Retry an item from its current step. */
  retryParked(...args: Parameters<typeof operate.retryParked>) { return this.run(operate.retryParked(...args)); }
  /** Discard an item, if no money was taken. */
  dropParked(...args: Parameters<typeof operate.dropParked>) { return this.run(operate.dropParked(...args)); }
  /** Report that more was sold than can be delivered, and apply the sale's policy. */
  compensate(...args: Parameters<typeof operate.compensate>) { return this.run(operate.compensate(...args)); }
  /** What happened to a buyer, refusals included. */
  getAudit(...args: Parameters<typeof operate.getAudit>) { return this.run(operate.getAudit(...args)); }
  /** Live figures of a sale, to poll every second. */
  getLive(...args: Parameters<typeof operate.getLive>) { return this.run(operate.getLive(...args)); }
  /** The history of a sale: its counts, and operators' actions. */
  getSaleHistory(...args: Parameters<typeof operate.getSaleHistory>) { return this.run(operate.getSaleHistory(...args)); }
  /** The conversion funnel of a sale, and why visitors were refused. */
  getFunnel(...args: Parameters<typeof operate.getFunnel>) { return this.run(operate.getFunnel(...args)); }
  /** The state of each dependency. */
  getHealth(...args: Parameters<typeof operate.getHealth>) { return this.run(operate.getHealth(...args)); }
  /** List service keys, revoked ones included. */
  listKeys(...args: Parameters<typeof operate.listKeys>) { return this.run(operate.listKeys(...args)); }
  /** Create a service key. */
  createKey(...args: Parameters<typeof operate.createKey>) { return this.run(operate.createKey(...args)); }
  /** Revoke a service key. */
  revokeKey(...args: Parameters<typeof operate.revokeKey>) { return this.run(operate.revokeKey(...args)); }
  /** List operators, disabled ones included. */
  listOperators(...args: Parameters<typeof team.listOperators>) { return this.run(team.listOperators(...args)); }
  /** Invite an operator. */
  inviteOperator(...args: Parameters<typeof team.inviteOperator>) { return this.run(team.inviteOperator(...args)); }
  /** Disable an operator. */
  disableOperator(...args: Parameters<typeof team.disableOperator>) { return this.run(team.disableOperator(...args)); }
  /** List console sessions. */
  listSessions(...args: Parameters<typeof team.listSessions>) { return this.run(team.listSessions(...args)); }
  /** End a console session. */
  revokeSession(...args: Parameters<typeof team.revokeSession>) { return this.run(team.revokeSession(...args)); }
  /** List operators' actions, newest first. */
  listActions(...args: Parameters<typeof team.listActions>) { return this.run(team.listActions(...args)); }
  iterActions(args: Parameters<typeof team.listActions>[0] = {}) {
    return this.pages<Action>((after) => team.listActions({ ...args, ...(after === undefined ? {} : { starting_after: after }) }), "action_id");
  }
  /** List requests that wait for a second operator, newest first. */
  listApprovals(...args: Parameters<typeof team.listApprovals>) { return this.run(team.listApprovals(...args)); }
  /** Approve what another operator asked for, and carry it out. */
  approveRequest(...args: Parameters<typeof team.approveRequest>) { return this.run(team.approveRequest(...args)); }
  /** Reject what another operator asked for, or withdraw your own request. */
  rejectRequest(...args: Parameters<typeof team.rejectRequest>) { return this.run(team.rejectRequest(...args)); }
  /** How operators can sign in. */
  getSignIn(...args: Parameters<typeof team.getSignIn>) { return this.run(team.getSignIn(...args)); }
  /** Sign in to the console as an operator. */
  signInWithPassword(...args: Parameters<typeof team.signInWithPassword>) { return this.run(team.signInWithPassword(...args)); }
  /** Set a password with an invitation, and sign in. */
  acceptInvitation(...args: Parameters<typeof team.acceptInvitation>) { return this.run(team.acceptInvitation(...args)); }
  /** Buyers and tokens that are revoked, newest first. */
  listRevocations(...args: Parameters<typeof revocations.listRevocations>) { return this.run(revocations.listRevocations(...args)); }
  /** Refuse every token of a buyer. */
  revokeBuyer(...args: Parameters<typeof revocations.revokeBuyer>) { return this.run(revocations.revokeBuyer(...args)); }
  /** Accept a buyer's tokens again. */
  restoreBuyer(...args: Parameters<typeof revocations.restoreBuyer>) { return this.run(revocations.restoreBuyer(...args)); }
  /** Refuse one token of a buyer, by its `jti`. */
  revokeToken(...args: Parameters<typeof revocations.revokeToken>) { return this.run(revocations.revokeToken(...args)); }
  /** Accept a token again. */
  restoreToken(...args: Parameters<typeof revocations.restoreToken>) { return this.run(revocations.restoreToken(...args)); }
  /** Create a webhook. */
  createWebhook(...args: Parameters<typeof webhooks.createWebhook>) { return this.run(webhooks.createWebhook(...args)); }
  /** List webhooks. */
  listWebhooks(...args: Parameters<typeof webhooks.listWebhooks>) { return this.run(webhooks.listWebhooks(...args)); }
  /** One webhook. */
  getWebhook(...args: Parameters<typeof webhooks.getWebhook>) { return this.run(webhooks.getWebhook(...args)); }
  /** Change, disable or enable a webhook. */
  changeWebhook(...args: Parameters<typeof webhooks.changeWebhook>) { return this.run(webhooks.changeWebhook(...args)); }
  /** Remove a webhook and its deliveries. */
  deleteWebhook(...args: Parameters<typeof webhooks.deleteWebhook>) { return this.run(webhooks.deleteWebhook(...args)); }
  /** A new secret. */
  rotateSecret(...args: Parameters<typeof webhooks.rotateSecret>) { return this.run(webhooks.rotateSecret(...args)); }
  /** List deliveries, newest first. */
  listDeliveries(...args: Parameters<typeof webhooks.listDeliveries>) { return this.run(webhooks.listDeliveries(...args)); }
  iterDeliveries(webhook_id: string, args: Parameters<typeof webhooks.listDeliveries>[1] = {}) {
    return this.pages<Delivery>((after) => webhooks.listDeliveries(webhook_id, { ...args, ...(after === undefined ? {} : { starting_after: after }) }), "delivery_id");
  }
  /** Send again. */
  replay(...args: Parameters<typeof webhooks.replay>) { return this.run(webhooks.replay(...args)); }
  /** Send a test event. */
  sendTest(...args: Parameters<typeof webhooks.sendTest>) { return this.run(webhooks.sendTest(...args)); }
  /** Where you get messages. */
  getContact(...args: Parameters<typeof messages.getContact>) { return this.run(messages.getContact(...args)); }
  /** Ask for messages. */
  putContact(...args: Parameters<typeof messages.putContact>) { return this.run(messages.putContact(...args)); }
  /** End all messages. */
  deleteContact(...args: Parameters<typeof messages.deleteContact>) { return this.run(messages.deleteContact(...args)); }
  /** What was sent to buyers, newest first. */
  listMessages(...args: Parameters<typeof messages.listMessages>) { return this.run(messages.listMessages(...args)); }
  iterMessages(args: Parameters<typeof messages.listMessages>[0] = {}) {
    return this.pages<Message>((after) => messages.listMessages({ ...args, ...(after === undefined ? {} : { starting_after: after }) }), "message_id");
  }
  /** Resend a message that failed, was dropped or may be lost. */
  resendMessage(...args: Parameters<typeof messages.resendMessage>) { return this.run(messages.resendMessage(...args)); }
  /** Sign in to the console with a service key. */
  signIn(...args: Parameters<typeof console.signIn>) { return this.run(console.signIn(...args)); }
  /** Who is signed in. */
  getSession(...args: Parameters<typeof console.getSession>) { return this.run(console.getSession(...args)); }
  /** Sign out. */
  signOut(...args: Parameters<typeof console.signOut>) { return this.run(console.signOut(...args)); }
}

// Orders: search, filter, refund, mark as sent, export.
import { get, may, postOnce } from "../api.mjs";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.mjs";
import { attempt, Empty, Field, Heading, showNotice, Tag } from "../components.mjs";
import { dateTime, minorUnits, number, price } from "../format.mjs";
import * as paths from "../../paths.mjs";

const PAGE = 50;
// More would not fit into the memory of a small laptop.
const EXPORTED_MAX = 100_000;
const STATUSES = { pending: "", confirmed: "good", fulfilled: "good", refunded: "warn", cancelled: "bad" };
const COLUMNS = ["number", "order_id", "status", "sale_id", "buyer_id", "quantity", "unit_price", "amount", "refunded_amount", "currency", "created_at", "confirmed_at", "tracking", "reservation_id"];

export const SaleOrdersView = ({ id }) => html`<${OrdersView} saleId=${id} />`;

export function OrdersView({ id, saleId }) {
  const [filter, setFilter] = useState({ sale_id: saleId || "", status: "", buyer_id: "", order_id: id || "" });
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const [open, setOpen] = useState(null);
  const search = async (given, more = []) => {
    try {
      const page = given.order_id.startsWith("ord_") ? { data: [await get(paths.getOrder(given.order_id))], has_more: false } : await get(listed(given, PAGE, more.at(-1)?.order_id));
      setFound({ orders: [...more, ...page.data], hasMore: page.has_more });
      setError(null);
    } catch (problem) {
      setFound(null);
      setError(problem.reason === "order_not_found" ? `There is no order ${given.order_id}.` : problem.message);
    }
  };
  useEffect(() => { search(filter); }, []);
  const replace = (order) => setFound((last) => ({ ...last, orders: last.orders.map((one) => (one.order_id === order.order_id ? order : one)) }));
  const reload = async (orderId) => replace(await get(paths.getOrder(orderId)));
  const set = (name) => (event) => setFilter({ ...filter, [name]: event.target.value.trim() });
  const submit = (event) => {
    event.preventDefault();
    search(filter);
  };
  return html`<${Heading} title="Orders"><button class="button" onClick=${() => exportCsv(filter)} disabled=${!found?.orders.length}>Export as CSV</button><//>
    <form class="order-filter" onSubmit=${submit}>
      <${Field} name="order_id" label="Order number or ID" value=${filter.order_id} onInput=${set("order_id")} autocomplete="off" spellcheck="false" />
      <${Field} name="buyer_id" label="Buyer ID" value=${filter.buyer_id} onInput=${set("buyer_id")} autocomplete="off" spellcheck="false" />
      <${Field} name="sale_id" label="Sale ID" value=${filter.sale_id} onInput=${set("sale_id")} autocomplete="off" spellcheck="false" />
      <${Field} name="status" label="Status">${(shared) => html`<select ...${shared} value=${filter.status} onChange=${set("status")}>
        <option value="">Any</option>${Object.keys(STATUSES).map((status) => html`<option key=${status} value=${status}>${status}</option>`)}</select>`}<//>
      <button class="button main">Search</button>
    </form>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${found && found.orders.length === 0 && html`<${Empty}>No orders match.<//>`}
    ${found && found.orders.length > 0 && html`<div class="scroll"><table class="log orders">
      <thead><tr><th>Number</th><th>Status</th><th>Buyer</th><th>Sale</th><th class="right">Units</th><th class="right">Amount</th><th>Placed</th><th><span class="visually-hidden">Actions</span></th></tr></thead>
      <tbody>${found.orders.map((order) => html`<${OrderRow} key=${order.order_id} order=${order} act=${(action) => setOpen({ action, order })} />`)}</tbody>
    </table></div>`}
    ${found?.hasMore && html`<p><button class="button" onClick=${() => search(filter, found.orders)}>Show more</button></p>`}
    ${open?.action === "refund" && html`<${RefundDialog} order=${open.order} close=${() => setOpen(null)} done=${reload} />`}
    ${open?.action === "fulfil" && html`<${FulfilDialog} order=${open.order} close=${() => setOpen(null)} done=${reload} />`}`;
}

function listed(filter, limit, after) {
  const query = new URLSearchParams({ limit });
  for (const name of ["sale_id", "status", "buyer_id"]) if (filter[name]) query.set(name, filter[name]);
  if (filter.order_id && !filter.order_id.startsWith("ord_")) query.set("number", filter.order_id);
  if (after) query.set("starting_after", after);
  return `${paths.listOrders()}?${query}`;
}

function OrderRow({ order, act }) {
  const left = order.amount - order.refunded_amount;
  const isPaid = order.confirmed_at !== null;
  return html`<tr>
    <td><b class="code">${order.number}</b><br /><span class="quiet code">${order.order_id}</span></td>
    <td><${Tag} kind=${STATUSES[order.status]}>${order.status}<//>${order.tracking && html`<br /><span class="quiet">${order.tracking}</span>`}</td>
    <td><a class="whole-row" href="#/buyers/${encodeURIComponent(order.buyer_id)}">${order.buyer_id}</a></td>
    <td><a href="#/sale/${encodeURIComponent(order.sale_id)}">${order.sale_id}</a></td>
    <td class="right">${number(order.quantity)}</td>
    <td class="right">${price(order)}${order.refunded_amount > 0 && html`<br /><span class="quiet">${price({ amount: order.refunded_amount, currency: order.currency })} refunded</span>`}</td>
    <td><time>${dateTime(order.created_at)}</time></td>
    <td><div class="actions">
      ${may("sales") && order.status === "confirmed" && html`<button class="button small" onClick=${() => act("fulfil")}>Mark as sent</button>`}
      ${may("money") && isPaid && left > 0 && html`<button class="button small danger-outline" onClick=${() => act("refund")}>Refund</button>`}
    </div></td>
  </tr>`;
}

function OrderDialog({ title, action, danger, close, submit, children }) {
  const dialog = useRef(null);
  const [isBusy, setBusy] = useState(false);
  useLayoutEffect(() => { dialog.current.showModal(); }, []);
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    if (await submit()) close();
    else setBusy(false);
  };
  return html`<dialog ref=${dialog} aria-labelledby="order-dialog-title" onCancel=${(event) => { event.preventDefault(); close(); }}>
    <form onSubmit=${send}><h2 id="order-dialog-title">${title}</h2>${children}
      <div class="actions"><button class="button" type="button" onClick=${close}>Cancel</button>
        <button class="button ${danger ? "danger" : "main"}" type="submit" disabled=${isBusy}>${action}</button></div>
    </form></dialog>`;
}

function RefundDialog({ order, close, done }) {
  const left = order.amount - order.refunded_amount;
  const [amount, setAmount] = useState("");
  const [reason, setReason] = useState("");
  const [restock, setRestock] = useState(false);
  const all = price({ amount: left, currency: order.currency });
  const submit = () => attempt(async () => {
    const body = { restock, reason: reason.trim() };
    if (amount.trim()) body.amount = minorUnits(amount, order.currency);
    const refund = await postOnce(paths.refundOrder(order.order_id), body);
    showNotice(refund.status === "done" ? `${price(refund)} refunded.` : `${price(refund)} will be refunded; the provider is being asked.`);
    await done(order.order_id);
  });
  return html`<${OrderDialog} title=${`Refund order ${order.number}`} action="Refund" danger close=${close} submit=${submit}>
    <p>${all} of this order can be refunded to ${order.buyer_id}. This cannot be undone.</p>
    <${Field} name="amount" label=${`Amount in ${order.currency}`} hint="Leave empty to refund all of it." inputmode="decimal" value=${amount} onInput=${(event) => setAmount(event.target.value)} />
    <${Field} name="reason" label="Reason" hint="For the books; the buyer does not see it." required maxlength="300" value=${reason} onInput=${(event) => setReason(event.target.value)} />
    <label class="check"><input type="checkbox" checked=${restock} onChange=${(event) => setRestock(event.target.checked)} />Sell the units again (with a full refund)</label>
  <//>`;
}

function FulfilDialog({ order, close, done }) {
  const [tracking, setTracking] = useState("");
  const submit = () => attempt(async () => {
    await postOnce(paths.fulfilOrder(order.order_id), tracking.trim() ? { tracking: tracking.trim() } : {});
    await done(order.order_id);
  }, `Order ${order.number} is marked as sent.`);
  return html`<${OrderDialog} title=${`Mark order ${order.number} as sent`} action="Mark as sent" close=${close} submit=${submit}>
    <${Field} name="tracking" label="Tracking number" hint="Optional; the buyer sees it." value=${tracking} onInput=${(event) => setTracking(event.target.value)} />
  <//>`;
}

/** All orders that match, page by page. */
async function exportCsv(filter) {
  const rows = [];
  await attempt(async () => {
    let page;
    do {
      page = await get(listed(filter, 100, rows.at(-1)?.order_id));
      rows.push(...page.data);
      if (page.has_more && rows.length % 1000 === 0) showNotice(`${number(rows.length)} orders read …`);
    } while (page.has_more && rows.length < EXPORTED_MAX);
    const lines = [COLUMNS, ...rows.map((order) => COLUMNS.map((name) => order[name] ?? ""))].map((cells) => cells.map(cell).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
    link.download = `orders${filter.sale_id ? `-${filter.sale_id}` : ""}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
    showNotice(page.has_more ? `The first ${number(rows.length)} orders were exported. Use holdfast orders export for all.` : `${number(rows.length)} orders exported.`);
  });
}

/** Quoted where needed. A spreadsheet takes some first characters for a formula, so those are defused. */
function cell(value) {
  const text = /^[=+\-@\t\r]/.test(String(value)) && typeof value !== "number" ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

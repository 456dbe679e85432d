/** Before the purchase: the countdown and the button. */
import { clockTime, countdown, dateTime, isSameDay, money, number, parts } from "../format.js";
import { html } from "../html.js";
import { useTime } from "../hooks.js";
import { SoldOut } from "./sold-out.js";

const CLOSED = { sold_out: "sold", ended: "ended" };
const CLOSED_WITHOUT_LINE = new Set(["upcoming", "paused"]);

export function BuyView(page) {
  const { sale, now, t, begin, config, state } = page;
  if (!sale || !now) return html`<div class="quiet">${t.page.loading}</div>`;
  const isUpcoming = now.state === "upcoming";
  const hasLine = sale.room.mode !== "off";
  if (page.mine?.reservation) return html`<${Continue} ...${page} />`;
  // Visitors from the shop's own pages find their order there.
  const orders = page.target ? [] : (page.mine?.orders ?? []);
  if (orders.length > 0 && (now.state in CLOSED || isAtLimit(sale, orders))) return html`<${Bought} ...${page} order=${orders[0]} isAll />`;
  if (now.state in CLOSED) return html`<${Closed} ...${page} />`;
  if (page.mine?.place) return html`<${Continue} ...${page} />`;
  // Without a line there is nothing to press until the sale opens or continues: the page shows the button by itself then.
  const canBegin = config !== null && state === null && (hasLine || !CLOSED_WITHOUT_LINE.has(now.state));
  return html`
    ${orders.length > 0 && html`<${Bought} ...${page} order=${orders[0]} />`}
    ${isUpcoming && html`<${Countdown} ...${page} />`}
    ${canBegin && html`<button type="button" class="button main large" onClick=${begin}>${labelOf(page)}</button>`}
    <p class=${canBegin ? "small" : "closed"}>${hintOf(page)}</p>
    ${now.state === "all_held" && now.next_return_at && html`<p class="small figures">${t.hoping.at(clockTime(Date.parse(now.next_return_at), page.language, true))}</p>`}
  `;
}

function Closed(page) {
  const { now, t, mine } = page;
  return html`
    <p class="closed">${t.buy[CLOSED[now.state]]}</p>
    ${now.state === "sold_out" && html`<${SoldOut} ...${page} position=${mine?.place?.position} />`}
  `;
}

/** A purchase that began on another device, or before the storage was cleared. */
function Continue({ mine, t, language, begin }) {
  const { reservation } = mine;
  const isCart = reservation?.status === "active";
  const until = isCart && clockTime(Date.parse(reservation.expires_at), language);
  const text = isCart ? t.buy.inCart(reservation.quantity, until) : reservation ? t.buy.isPaying : t.buy.inLine;
  return html`
    <p class="note" role="status">${text}</p>
    <button type="button" class="button main large" onClick=${begin}>${isCart ? t.buy.continueToPay : t.buy.continue}</button>
  `;
}

const TAKEN_BACK = new Set(["cancelled", "refunded"]);

/** As far as the page can tell; the server decides. */
function isAtLimit({ per_buyer_limit: limit }, orders) {
  const units = orders.filter(({ status }) => !TAKEN_BACK.has(status)).reduce((sum, { quantity }) => sum + quantity, 0);
  return limit !== null && units >= limit;
}

/** The newest order, made on another device or before the storage was cleared. */
function Bought({ order, isAll = false, t, show }) {
  const look = isAll ? "button main large" : "button large";
  return html`
    <p class="note" role="status">${t.buy.bought} <b class="code">${order.number}</b></p>
    <button type="button" class=${look} onClick=${() => show(order)}>${t.buy.showOrder}</button>
  `;
}

function labelOf({ sale, now, t, language }) {
  if (sale.room.mode !== "off") return t.buy.join;
  return now.state === "all_held" ? t.buy.next : t.buy.buy(money(sale.price, language));
}

function hintOf(page) {
  const { sale, now, t } = page;
  const hint = sale.room.mode === "off" ? hintWithoutLine(page) : hintOfLine(page);
  const isOpen = now.state === "open" || now.state === "all_held";
  return sale.payment === "external" && isOpen ? `${hint} ${t.buy.external}` : hint;
}

function hintWithoutLine({ sale, now, t }) {
  const hints = { upcoming: t.before.noRoom, paused: t.buy.pausedDirect, all_held: t.buy.heldDirect };
  return hints[now.state] ?? t.buy.direct(countdown(sale.hold_seconds * 1000));
}

function hintOfLine({ sale, now, t, language }) {
  const isLottery = sale.room.mode === "lottery";
  if (now.state === "upcoming") return isLottery ? t.before.joinLottery : t.before.joinEarly;
  if (now.state === "all_held") return t.buy.heldNow;
  if (now.state === "paused") return t.buy.paused;
  const waiting = Math.max(now.joined - now.serving, 0);
  const crowd = waiting > 0 ? `${t.buy.waiting(waiting, number(waiting, language))} ` : "";
  return crowd + (isLottery ? t.buy.lottery : t.buy.fair);
}

function Countdown({ now, t, language, clock }) {
  const time = useTime(clock);
  const opensAt = Date.parse(now.opens_at);
  const text = t.before.opensAt(dateTime(opensAt, time, language), isSameDay(opensAt, time));
  return html`
    <div class="opening">
      <p class="eyebrow">${t.before.opensIn}</p>
      <p class="clock figures" role="timer" aria-label=${text}>
        ${parts(opensAt - time).map(
          ([unit, value]) => html`
            <span class="unit" aria-hidden="true"><b>${String(value).padStart(2, "0")}</b> ${t.before.units[unit]}</span>
          `,
        )}
      </p>
      <p class="small">${text}</p>
    </div>
  `;
}

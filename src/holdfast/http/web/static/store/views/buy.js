/** Before the purchase: the countdown and the button. */
import { clockTime, countdown, dateTime, isSameDay, money, number, parts } from "../format.js";
import { html } from "../html.js";
import { useTime } from "../hooks.js";

const CLOSED = { sold_out: "sold", ended: "ended" };

export function BuyView(page) {
  const { sale, now, t, language, begin, config, state } = page;
  if (!sale || !now) return html`<div class="quiet">${t.page.loading}</div>`;
  const isUpcoming = now.state === "upcoming";
  const hasLine = sale.room.mode !== "off";
  if (page.mine) return html`<${Continue} ...${page} />`;
  if (now.state in CLOSED) return html`<p class="closed">${t.buy[CLOSED[now.state]]}</p>`;
  const isReady = config !== null && state === null && (hasLine || !isUpcoming);
  const label = hasLine ? t.buy.join : t.buy.buy(money(sale.price, language));
  return html`
    ${isUpcoming && html`<${Countdown} ...${page} />`}
    <button type="button" class="button main large" disabled=${!isReady} onClick=${begin}>${label}</button>
    <p class="small">${hintOf(page)}</p>
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

function hintOf({ sale, now, t, language }) {
  const isLottery = sale.room.mode === "lottery";
  if (sale.room.mode === "off") {
    return now.state === "upcoming" ? t.before.noRoom : t.buy.direct(countdown(sale.hold_seconds * 1000));
  }
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

/** Bought: the order, its history and the receipt. */
import { useEffect, useState } from "../../vendor/hooks.mjs";
import { clockTime, fullTime, money } from "../format.js";
import { html } from "../html.js";

export function ConfirmedView(page) {
  const { state, sale, t, language } = page;
  const { order, reservation } = state;
  const paid = order ?? reservation;
  const { refunded, cancelled, fulfilled } = t.confirmed;
  const isReversed = order?.status in t.confirmed.titles;
  const at = Date.parse(order?.created_at ?? reservation.created_at);
  return html`
    ${!isReversed && html`<${Tick} />`}
    <p class="lead">${{ refunded, cancelled, fulfilled }[order?.status] ?? t.confirmed.text(sale.name)}</p>
    <dl class="bill figures">
      ${order && html`<div><dt>${t.confirmed.order}</dt><dd class="code">${order.number}</dd></div>`}
      <div><dt>${t.confirmed.paid}</dt><dd>${money({ amount: paid.amount, currency: paid.currency }, language)}</dd></div>
      ${order?.refunded_amount > 0 && html`
        <div><dt>${t.confirmed.titles.refunded}</dt><dd>${money({ amount: order.refunded_amount, currency: order.currency }, language)}</dd></div>
      `}
      <div><dt>${t.confirmed.at}</dt><dd>${fullTime(at, language)}</dd></div>
      ${order?.tracking && html`<div><dt>${t.confirmed.tracking}</dt><dd class="code">${order.tracking}</dd></div>`}
    </dl>
    <${Timeline} ...${page} />
    ${reservation.receipt && html`<${Receipt} text=${reservation.receipt} t=${t} />`}
  `;
}

function Tick() {
  return html`
    <svg class="tick" viewBox="0 0 64 64" aria-hidden="true">
      <circle cx="32" cy="32" r="30" />
      <path d="M20 33l8.5 8.5L45 25" />
    </svg>
  `;
}

/** Each comes with another event that says the same to a buyer. */
const SAID_ALREADY = new Set(["order.pending", "reservation.reopened", "reservation.confirmed"]);

export function Timeline({ buying, t, language }) {
  const [events, setEvents] = useState([]);
  useEffect(() => {
    buying?.history().then((all) => setEvents(all.filter(({ type }) => !SAID_ALREADY.has(type))), () => {});
  }, []);
  if (events.length === 0) return null;
  return html`
    <details class="timeline" open>
      <summary>${t.timeline.show}</summary>
      <ol>
        ${events.map(
          (event) => html`
            <li>
              <time class="figures" datetime=${event.at}>${clockTime(Date.parse(event.at), language, true)}</time>
              <span>
                ${t.timeline.events[event.type] ?? event.type}
                ${isHold(event) && html`<span class="quiet">, ${t.timeline.until(clockTime(Date.parse(event.expires_at), language, true))}</span>`}
              </span>
            </li>
          `,
        )}
      </ol>
    </details>
  `;
}

const isHold = ({ type, expires_at: until }) => until && ["reservation.created", "reservation.extended"].includes(type);

function Receipt({ text, t }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () => navigator.clipboard?.writeText(text).then(() => setCopied(true));
  return html`
    <details class="receipt">
      <summary>${t.confirmed.receipt}</summary>
      <p class="small">${t.confirmed.receiptNote}</p>
      <p class="code">${text}</p>
      <button type="button" class="button" onClick=${copy}>${isCopied ? t.confirmed.copied : t.confirmed.copy}</button>
    </details>
  `;
}

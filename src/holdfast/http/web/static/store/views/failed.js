/** Declined and refused: what happened, whether money was charged, and what to do next. */
import { refusalOf } from "../announce.js";
import { html } from "../html.js";
import { money } from "../format.js";
import { Timeline } from "./confirmed.js";
import { SoldOut } from "./sold-out.js";

export function DeclinedView(page) {
  const { state, t, buying } = page;
  return html`
    <p class="lead">${t.declined.reasons[state.reason] ?? t.declined.reasons.other}</p>
    <p><b>${t.declined.kept}</b> ${t.declined.back}</p>
    <button type="button" class="button main large" onClick=${() => buying.again()}>${t.declined.again}</button>
    <${Timeline} ...${page} />
  `;
}

export function RefusedView(page) {
  const { state, t, language } = page;
  const [, text, action] = refusalOf(state, t);
  const orders = state.problem?.orders ?? [];
  return html`
    <p class="lead">${text}</p>
    ${orders.map(
      (order) => html`
        <dl class="bill figures">
          <div><dt>${t.actions.order}</dt><dd class="code">${order.number}</dd></div>
          <div><dt>${t.confirmed.paid}</dt><dd>${money(order, language)}</dd></div>
        </dl>
      `,
    )}
    ${state.reason === "sold_out" && html`<${SoldOut} ...${page} position=${state.position} />`}
    <${Action} ...${page} action=${action} />
    ${state.reservation && html`<${Timeline} ...${page} />`}
  `;
}

function Action({ action: suggested, sale, t, buying, end }) {
  const action = suggested === "rejoin" && sale?.room.mode === "off" ? "again" : suggested;
  const handlers = { again: () => buying?.again(), rejoin: () => buying?.again(), reload: () => location.reload(), look: end };
  const isPossible = action in handlers && (buying !== null || action === "reload");
  if (isPossible) return html`<button type="button" class="button main large" onClick=${handlers[action]}>${t.actions[action]}</button>`;
  return buying === null ? null : html`<button type="button" class="button large" onClick=${end}>${t.actions.look}</button>`;
}

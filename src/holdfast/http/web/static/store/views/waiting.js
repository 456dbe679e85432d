/** In line: people ahead, place, estimated wait, chances, and what happens next. */
import { clockTime, countdown, number, percent } from "../format.js";
import { html } from "../html.js";
import { useTime } from "../hooks.js";
import { ConfirmButton } from "./confirm-button.js";
import { Fact } from "./fact.js";
import { TellMe } from "./tell-me.js";

export function WaitingView(page) {
  const { state, t, buying } = page;
  return html`
    ${state.provisional ? html`<${Arrived} ...${page} />` : html`<${Line} ...${page} />`}
    <${TellMe} ...${page} purpose="turn" />
    <div class="foot">
      <p class="small">${t.waiting.kept}</p>
      <${ConfirmButton}
        label=${t.waiting.leave}
        question=${t.waiting.leaveSure}
        yes=${t.waiting.leaveYes}
        no=${t.waiting.leaveNo}
        onYes=${() => buying.leave()}
      />
    </div>
  `;
}

function Line(page) {
  return html`
    ${page.state.position === null ? html`<${Drawing} ...${page} />` : html`<${Ahead} ...${page} />`}
    <${Figures} ...${page} />
    <${Outlook} ...${page} />
  `;
}

/** The arrival is stamped and signed; the place follows when the server has merged all arrivals. */
function Arrived({ t }) {
  return html`
    <div class="drawing">
      <h3>${t.waiting.arrived}</h3>
      <p>${t.waiting.arrivedText}</p>
    </div>
  `;
}

function Ahead({ state, t, language }) {
  const { ahead } = state;
  const first = Math.max(state.first ?? ahead, ahead, 1);
  const done = Math.round((1 - ahead / first) * 100);
  return html`
    <p class="ahead"><b class="figures">${number(ahead, language)}</b> <span>${t.waiting.ahead(ahead)}</span></p>
    <progress max="100" value=${done} aria-label=${t.waiting.progress}>${done} %</progress>
  `;
}

function Drawing({ now, t, language }) {
  // The visitor has joined, even if `now` does not count them yet.
  const joined = Math.max(now?.joined ?? 0, 1);
  return html`
    <div class="drawing">
      <h3>${t.waiting.draw}</h3>
      <p>${t.waiting.drawText(joined, number(joined, language))}</p>
    </div>
  `;
}

function Figures({ state, now, t, language }) {
  const isDrawn = state.position !== null;
  return html`
    <dl class="facts figures">
      ${isDrawn && html`<${Fact} name=${t.waiting.place} value=${number(state.position, language)} />`}
      ${isDrawn && html`<${Fact} name=${t.waiting.serving} value=${number(state.serving, language)} />`}
      <${Fact} name=${t.waiting.eta} value=${turnText(state, now, t)} />
      <${Fact} name=${t.waiting.odds} value=${chances(state, now, t, language)} />
    </dl>
  `;
}

/** There is an estimate only while the line moves, and the server has time to make one. */
function turnText({ etaSeconds, ahead }, now, t) {
  if (now?.state === "upcoming") return t.waiting.afterOpening;
  if (now?.state !== "open") return t.waiting.onHold;
  if (etaSeconds === null) return t.waiting.unknown;
  return ahead === 0 ? t.waiting.soon : t.waiting.about(etaSeconds);
}

/** A range of ten points, and never 0 %. Until enough is known about what people do: the units, and the people before. */
function chances({ odds, ahead }, now, t, language) {
  if (odds === null || odds === undefined) {
    const units = now?.available_hint ?? null;
    return units === null || ahead === null ? t.waiting.unknown : t.waiting.unitsAndAhead(number(units, language), units, ahead);
  }
  if (odds < 0.01) return `< ${percent(0.01, language)}`;
  if (odds > 0.99) return `> ${percent(0.99, language)}`;
  const low = Math.min(Math.floor(odds * 10), 9);
  return `${Math.max(low * 10, 1)}–${percent((low + 1) / 10, language)}`;
}

function Outlook({ state, now, t, language, clock, target }) {
  const time = useTime(clock, 500);
  const returns = now?.next_return_at;
  if (now?.state === "upcoming") return html`<p class="note figures">${t.waiting.opens(countdown(Date.parse(now.opens_at) - time))}</p>`;
  if (now?.state === "paused") return html`<p class="note warn">${t.waiting.paused}</p>`;
  if (now?.state === "all_held" && returns) {
    return html`<p class="note warn">${t.waiting.allHeld(clockTime(Date.parse(returns), language, true))}</p>`;
  }
  if (state.likelySoldOut) return html`<p class="note warn">${t.waiting.likelySoldOut}</p>`;
  return html`<p class="note">${target ? t.waiting.whatNextReturn(target.host) : t.waiting.whatNext}</p>`;
}

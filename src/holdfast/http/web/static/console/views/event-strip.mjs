// What was done to a sale, and by whom: marks on a strip of time, and the latest in words.
import { html } from "../html.mjs";
import { time } from "../format.mjs";

const SHOWN = 6;
const KINDS = {
  opened: ["Opened", "good"], closed: ["Closed", "bad"], paused: ["Paused", "warn"], resumed: ["Resumed", "good"], restocked: ["Restocked", "accent"],
  changed: ["Changed", "accent"], rate_changed: ["Rate changed", "accent"], line_paused: ["Line paused", "warn"], line_resumed: ["Line resumed", "good"], admitted: ["Admitted", "accent"],
};

export function EventStrip({ marks, history }) {
  const { at } = history.columns;
  if (!marks.length || at.length < 2) return null;
  const [first, last] = [Math.min(at[0], Date.parse(marks[0].at) / 1000), at.at(-1)];
  const shareOf = (mark) => Math.min(Math.max((Date.parse(mark.at) / 1000 - first) / (last - first || 1), 0), 1);
  return html`<section class="card events-of-sale" aria-labelledby="events-title"><h2 id="events-title">Events</h2>
    <div class="event-strip" aria-hidden="true">${marks.map((mark, index) => html`<i key=${index} class="is-${kindOf(mark)[1]}" style=${{ left: `${shareOf(mark) * 100}%` }} title=${sentence(mark)}></i>`)}</div>
    <ol>${marks.slice(-SHOWN).reverse().map((mark) => html`<li key=${mark.at + mark.kind}><i class="is-${kindOf(mark)[1]}"></i><time>${time(mark.at)}</time> <b>${kindOf(mark)[0]}</b>${mark.detail && ` ${mark.detail}`}${" "}<span class="quiet">${mark.by ? `by ${mark.by}` : mark.kind === "opened" || mark.kind === "closed" ? "on schedule" : ""}</span></li>`)}</ol>
  </section>`;
}

const kindOf = (mark) => KINDS[mark.kind] || [mark.kind.replaceAll("_", " "), "accent"];
const sentence = (mark) => [time(mark.at), kindOf(mark)[0], mark.detail, mark.by && `by ${mark.by}`].filter(Boolean).join(" ");

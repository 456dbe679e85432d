// A sale while it sells: looked at once a second, and readable from across the room.
import { contact, get, may, Problem } from "../api.mjs";
import { Chart } from "../chart.mjs";
import { History } from "../history.mjs";
import { html, useRef, useState } from "../html.mjs";
import { Empty, Heading, Tag } from "../parts.mjs";
import { useEvery, useStore } from "../store.mjs";
import { milliseconds, moment, number, OUTCOMES, PHASES, price, rate, seconds, time } from "../words.mjs";
import { Controls } from "./controls.mjs";
import { LinePanel } from "./line.mjs";
import { StockBar } from "./stock.mjs";

// So that something new is seen every second, though an answer takes its time.
const LOOK_MS = 800;
const STALE_MS = 3000;
// Kept while one looks at other views.
const histories = new Map();

const CHARTS = [
  ["Attempts per second", [
    { name: "attempts", label: "asked", colour: "quiet", show: rate, filled: true },
    { name: "granted", label: "granted", colour: "available", show: rate },
    { name: "refused", label: "refused", colour: "bad", show: rate, dash: [5, 4] }]],
  ["Refusals per second", [
    { name: "out_of_stock", label: "sold out", colour: "text", show: rate },
    { name: "all_held", label: "all in carts", colour: "held", show: rate, dash: [6, 3] },
    { name: "limits", label: "limits", colour: "settling", show: rate },
    { name: "not_selling", label: "not selling", colour: "focus", show: rate, dash: [2, 3] },
    { name: "turned_away", label: "turned away", colour: "bad", show: rate }]],
  ["The line", [
    { name: "joined", label: "joined", colour: "quiet", show: number, filled: true },
    { name: "serving", label: "serving", colour: "accent", show: number },
    { name: "inside", label: "inside", colour: "held", show: number, dash: [5, 4] }], "room"],
  ["Answer time", [
    { name: "p50", label: "p50", colour: "accent", show: milliseconds },
    { name: "p99", label: "p99", colour: "held", show: milliseconds, dash: [5, 4] }]],
  ["Payments under way", [
    { name: "open", label: "open", colour: "settling", show: number, filled: true },
    { name: "oldest_s", label: "oldest", colour: "bad", show: (value) => (value === null ? "–" : seconds(value)), dash: [5, 4] }]],
  ["Units returned per second", [
    { name: "expired", label: "expired", colour: "held", show: rate },
    { name: "cancelled", label: "given back", colour: "accent", show: rate, dash: [5, 4] },
    { name: "failed", label: "not paid", colour: "bad", show: rate }]],
  ["Gate against ledger", [
    { name: "units_apart", label: "units apart", colour: "bad", show: number },
    { name: "journal_lag", label: "entries on their way", colour: "accent", show: number, dash: [5, 4] }]],
];

export function SaleView({ id }) {
  const path = `/v1/ops/sales/${encodeURIComponent(id)}/live`;
  const [seen, setSeen] = useState(null);
  const [missing, setMissing] = useState(null);
  if (!histories.has(id)) histories.set(id, new History());
  const history = useRef(histories.get(id)).current;
  const look = async () => {
    try {
      const live = await get(path);
      history.add(live);
      setSeen({ live, at: Date.now() });
      setMissing(null);
    } catch (problem) {
      if (problem instanceof Problem && problem.status !== 503) setMissing(problem.message);
      // What was seen last stays; its age is told.
      setSeen((last) => last && { ...last });
    }
  };
  useEvery(LOOK_MS, look, [id]);
  if (missing) return html`<${Heading} title=${id}><//><${Empty}>${missing}<//>`;
  if (!seen) return html`<${Heading} title=${id}><//><${Empty}>Looking…<//>`;
  return html`<${Shown} live=${seen.live} history=${history} onChange=${look} />`;
}

function Shown({ live, history, onChange }) {
  const { sale, stock } = live;
  const [phase, kind] = PHASES[sale.phase];
  return html`<div class="live" data-as-of=${live.as_of}>
    <${Heading} title=${sale.name}>
      <${Tag} kind=${kind}>${phase}<//><${Freshness} asOf=${live.as_of} />
    <//>
    <p class="quiet live-facts"><span class="code">${sale.sale_id}</span> · ${price(sale.price)} · ${sale.payment} · ${sale.checkout} ·
      ${" "}${sale.phase === "upcoming" ? `opens ${moment(sale.starts_at)}` : `since ${moment(sale.starts_at)}`}${sale.ends_at ? ` until ${moment(sale.ends_at)}` : ""}
      ${live.next_return_at ? html` · <b>next unit back at ${time(live.next_return_at)}</b>` : ""}</p>
    ${sale.problem && html`<p class="banner bad" role="alert">Does not open: ${sale.problem}</p>`}
    <${Warnings} live=${live} />
    ${stock && html`<${StockBar} stock=${stock} />`}
    <${Tiles} live=${live} history=${history} />
    <div class="live-columns">
      <div class="charts">${CHARTS.filter(([, , needs]) => needs !== "room" || live.room).map(([title, series]) =>
        html`<${Chart} key=${title} title=${title} series=${series} history=${history} version=${live.as_of} />`)}</div>
      <aside aria-label="Controls">
        ${may("sales") && html`<${Controls} live=${live} onChange=${onChange} />`}
        ${live.room && html`<${LinePanel} sale=${sale} room=${live.room} onChange=${onChange} />`}
        <${Refusals} attempts=${live.attempts} turnedAway=${live.turned_away} />
      </aside>
    </div>
  </div>`;
}

function Freshness({ asOf }) {
  const { lost } = useStore(contact);
  const [, tick] = useState(0);
  useEvery(1000, () => tick(Date.now()));
  const isStale = lost || Date.now() - Date.parse(asOf) > STALE_MS;
  return html`<span class="freshness ${isStale ? "is-stale" : ""}" data-fresh=${!isStale}><i></i>${isStale ? `No news since ${time(asOf)}` : `Live ${time(asOf)}`}</span>`;
}

function Warnings({ live }) {
  const { health, drift, parked } = live;
  const waiting = Object.values(parked).reduce((sum, count) => sum + count, 0);
  const told = [
    health.not_answering.length && ["bad", `Not answering: ${health.not_answering.join(", ")}`],
    health.agents_ended.length && ["bad", `Background work has ended: ${health.agents_ended.join(", ")}`],
    drift && !drift.ok && ["bad", `Gate and ledger differ: ${drift.finding}`],
    health.switched_off.length && ["warn", `Switched off under load: ${health.switched_off.join(", ")}`],
    waiting && ["warn", html`${waiting} parked, waiting for a person: <a href="#/parked">look at them</a>`],
  ].filter(Boolean);
  return told.map(([kind, text], index) => html`<p key=${index} class="banner ${kind}">${text}</p>`);
}

function Tiles({ live, history }) {
  const { room, settlement, drift } = live;
  const tiles = [
    ["Asked", rate(history.latest("attempts")), "per second"],
    ["Granted", rate(history.latest("granted")), "per second"],
    ["Refused", rate(history.latest("refused")), "per second"],
    ["Answer p99", milliseconds(live.answer_ms.p99), `half within ${milliseconds(live.answer_ms.p50)}`],
    room && ["In line", number(room.waiting), `${number(room.inside)} inside`],
    ["Paying", number(settlement.open), settlement.open ? `oldest ${seconds(settlement.oldest_s)}` : "nothing waits", settlement.oldest_s > 30 ? "warn" : ""],
    ["Drift", drift === null ? "–" : drift.ok ? "None" : "Found", drift === null ? "not looked at here" : `looked ${time(drift.checked_at)}`, drift && !drift.ok ? "bad" : ""],
  ].filter(Boolean);
  return html`<dl class="tiles figures">${tiles.map(([label, value, detail, kind = ""]) => html`<div key=${label} class="tile ${kind}"><dt>${label}</dt><dd><b>${value}</b><span>${detail}</span></dd></div>`)}</dl>`;
}

function Refusals({ attempts, turnedAway }) {
  const rows = Object.entries(attempts.refused).sort((one, other) => other[1] - one[1]).map(([reason, count]) => [OUTCOMES[reason] || reason, count]);
  const all = [["Granted", attempts.granted], ["Repeated", attempts.repeated], ...rows,
    ["Turned away: too often", turnedAway.limited], ["Turned away: too busy", turnedAway.shed]].filter(([label, count]) => count || label === "Granted");
  return html`<section class="card panel"><h2>Answers so far</h2><table class="figures"><tbody>
    ${all.map(([label, count]) => html`<tr key=${label}><th scope="row">${label}</th><td>${number(count)}</td></tr>`)}</tbody></table></section>`;
}

// The live view of a sale, polled about once a second.
import { connection, get, may, Problem } from "../api.mjs";
import { Chart } from "../chart.mjs";
import { History } from "../history.mjs";
import { html, useRef, useState } from "../html.mjs";
import { Empty, Heading, Tag } from "../components.mjs";
import { useEvery, useStore } from "../store.mjs";
import { milliseconds, dateTime, features, number, OUTCOMES, PHASES, plural, price, rate, seconds, time } from "../format.mjs";
import { Controls } from "./controls.mjs";
import { EventStrip } from "./event-strip.mjs";
import { StockBar } from "./stock.mjs";
import { FunnelPanel } from "./funnel.mjs";
import { WaitingRoomPanel } from "./waiting-room.mjs";
import * as paths from "../../paths.mjs";

// Below a second, so that the figures change every second despite the response time.
const POLL_MS = 800;
const STALE_MS = 3000;
// How much of what the server has kept is shown first, by the second; the rest is shown on request.
const RECENT_S = 300;
const PAST_POLL_MS = 5000;
// Kept while other views are open.
const histories = new Map();

const CHARTS = [
  ["Attempts per second", [
    { name: "attempts", label: "attempts", colour: "quiet", show: rate, filled: true },
    { name: "granted", label: "reserved", colour: "available", show: rate },
    { name: "refused", label: "refused", colour: "bad", show: rate, dash: [5, 4] }]],
  ["Refusals per second", [
    { name: "out_of_stock", label: "sold out", colour: "text", show: rate },
    { name: "all_held", label: "all in carts", colour: "held", show: rate, dash: [6, 3] },
    { name: "limits", label: "limits", colour: "settling", show: rate },
    { name: "not_selling", label: "not open", colour: "focus", show: rate, dash: [2, 3] },
    { name: "turned_away", label: "throttled", colour: "bad", show: rate }]],
  ["Waiting room", [
    { name: "joined", label: "joined", colour: "quiet", show: number, filled: true },
    { name: "serving", label: "admitted", colour: "accent", show: number },
    { name: "inside", label: "active", colour: "held", show: number, dash: [5, 4] }], "room"],
  ["Reservation latency", [
    { name: "p50", label: "p50", colour: "accent", show: milliseconds },
    { name: "p99", label: "p99", colour: "held", show: milliseconds, dash: [5, 4] }]],
  ["Payments in progress", [
    { name: "open", label: "open", colour: "settling", show: number, filled: true },
    { name: "oldest_s", label: "oldest", colour: "bad", show: (value) => (value === null ? "–" : seconds(value)), dash: [5, 4] }]],
  ["Units returned per second", [
    { name: "expired", label: "expired", colour: "held", show: rate },
    { name: "cancelled", label: "removed", colour: "accent", show: rate, dash: [5, 4] },
    { name: "failed", label: "declined", colour: "bad", show: rate }]],
  ["Gate vs. ledger", [
    { name: "units_apart", label: "unit difference", colour: "bad", show: number },
    { name: "journal_lag", label: "journal lag", colour: "accent", show: number, dash: [5, 4] }]],
];

export function SaleView({ id }) {
  const path = paths.getLive(id);
  const [live, setLive] = useState(null);
  const [missing, setMissing] = useState(null);
  if (!histories.has(id)) histories.set(id, new History());
  const history = useRef(histories.get(id)).current;
  const refresh = async () => {
    try {
      const current = await get(path);
      history.add(current);
      setLive(current);
      setMissing(null);
    } catch (problem) {
      if (problem instanceof Problem && problem.status !== 503) setMissing(problem.message);
      // Keep the last figures; the view shows how old they are.
    }
  };
  useEvery(POLL_MS, refresh, [id]);
  const past = usePast(id, history);
  if (missing) return html`<${Heading} title=${id}><//><${Empty}>${missing}<//>`;
  if (!live) return html`<${Heading} title=${id}><//><${Empty}>Loading…<//>`;
  return html`<${LiveSale} live=${live} history=${history} past=${past} onChange=${refresh} />`;
}

/** What the server has kept: the last minutes, or all of it, and what was done to the sale. */
function usePast(id, recent) {
  const whole = useRef(new History()).current;
  const [isWhole, setWhole] = useState(false);
  const [marks, setMarks] = useState([]);
  const [version, setVersion] = useState("");
  useEvery(PAST_POLL_MS, async () => {
    try {
      const kept = await get(`${paths.getSaleHistory(id)}${isWhole ? "" : `?window_seconds=${RECENT_S}`}`);
      // Recent samples have more than the server keeps, so they go on from what it had at first.
      if (isWhole || !recent.isFilled) (isWhole ? whole : recent).fill(kept);
      setMarks(kept.marks);
      setVersion(kept.as_of);
    } catch {
      // Keep what is shown.
    }
  }, [id, isWhole]);
  return { isWhole, setWhole, marks, version, history: isWhole ? whole : recent };
}

function LiveSale({ live, history, past, onChange }) {
  const { sale, stock } = live;
  const [phase, kind] = PHASES[sale.phase];
  return html`<div class="live" data-as-of=${live.as_of}>
    <${Heading} title=${sale.name}>
      <${Tag} kind=${kind}>${phase}<//><${Freshness} asOf=${live.as_of} />
      <a class="button small" href="#/orders/of/${encodeURIComponent(sale.sale_id)}">Orders</a>
      <a class="button small" href="/s/${encodeURIComponent(sale.sale_id)}" target="_blank" rel="noopener">Storefront</a>
    <//>
    <p class="quiet live-facts"><span class="code">${sale.sale_id}</span> · ${price(sale.price)} · ${sale.payment} · ${sale.checkout} ·
      ${" "}${sale.phase === "upcoming" ? `opens ${dateTime(sale.starts_at)}` : `opened ${dateTime(sale.starts_at)}`}${sale.ends_at ? ` until ${dateTime(sale.ends_at)}` : ""}
      ${live.next_return_at ? html` · <b>next hold expires at ${time(live.next_return_at)}</b>` : ""}</p>
    ${sale.problem && html`<p class="banner bad" role="alert">Cannot open: ${sale.problem}</p>`}
    <${Warnings} live=${live} />
    ${stock && html`<${StockBar} stock=${stock} />`}
    <${Tiles} live=${live} history=${history} />
    <div class="live-columns">
      <div class="stack"><${EventStrip} marks=${past.marks} history=${past.history} />
        <div class="time-range" role="group" aria-label="Time shown">${[[false, "Last 5 minutes"], [true, "Whole sale"]].map(([value, label]) =>
          html`<button key=${label} class="button small" aria-pressed=${past.isWhole === value} onClick=${() => past.setWhole(value)}>${label}</button>`)}</div>
        <div class="charts">${CHARTS.filter(([, , needs]) => needs !== "room" || live.room).map(([title, series]) =>
          html`<${Chart} key=${title} title=${title} series=${series} history=${past.history} marks=${past.marks} isWhole=${past.isWhole} version=${past.isWhole ? past.version : live.as_of + past.version} />`)}</div></div>
      <aside aria-label="Controls">
        ${may("sales") && html`<${Controls} live=${live} onChange=${onChange} />`}
        ${live.room && html`<${WaitingRoomPanel} sale=${sale} room=${live.room} onChange=${onChange} />`}
        <${FunnelPanel} id=${sale.sale_id} />
        <${Results} attempts=${live.attempts} turnedAway=${live.turned_away} />
      </aside>
    </div>
  </div>`;
}

function Freshness({ asOf }) {
  const { lost } = useStore(connection);
  const [, tick] = useState(0);
  useEvery(1000, () => tick(Date.now()));
  const isStale = lost || Date.now() - Date.parse(asOf) > STALE_MS;
  return html`<span class="freshness ${isStale ? "is-stale" : ""}" data-fresh=${!isStale}><i></i>${isStale ? `No data since ${time(asOf)}` : `Live ${time(asOf)}`}</span>`;
}

function Warnings({ live }) {
  const { health, drift, parked } = live;
  const needAttention = Object.values(parked).reduce((sum, count) => sum + count, 0);
  const warnings = [
    health.unavailable_dependencies.length && ["bad", `Unavailable: ${health.unavailable_dependencies.join(", ")}`],
    health.agents_ended.length && ["bad", `Background tasks stopped: ${health.agents_ended.join(", ")}`],
    Object.keys(health.failed_checks).length && ["bad", html`Not working: ${Object.entries(health.failed_checks).map(([name, reason]) => `${name} (${reason})`.replaceAll("_", " ")).join(", ")}. <a href="#/health">Health</a>`],
    drift && !drift.ok && ["bad", `Gate and ledger differ: ${drift.finding}`],
    health.degraded_features.length && ["warn", `Off under load, so that purchases go on: ${features(health.degraded_features)}.`],
    needAttention && ["warn", html`${plural(needAttention, "item needs", "items need")} attention: <a href="#/attention">review</a>`],
  ].filter(Boolean);
  return warnings.map(([kind, text], index) => html`<p key=${index} class="banner ${kind}">${text}</p>`);
}

function Tiles({ live, history }) {
  const { room, settlement, drift } = live;
  const tiles = [
    ["Attempts", rate(history.latest("attempts")), "per second"],
    ["Reserved", rate(history.latest("granted")), "per second"],
    ["Refused", rate(history.latest("refused")), "per second"],
    ["Latency p99", milliseconds(live.answer_ms.p99), `p50 ${milliseconds(live.answer_ms.p50)}`],
    room && ["In line", number(room.waiting), `${number(room.inside)} active`],
    ["Paying", number(settlement.open), settlement.open ? `oldest ${seconds(settlement.oldest_s)}` : "none in progress", settlement.oldest_s > 30 ? "warn" : ""],
    ["Drift", drift === null ? "–" : drift.ok ? "None" : "Found", drift === null ? "not checked here" : `checked ${time(drift.checked_at)}`, drift && !drift.ok ? "bad" : ""],
  ].filter(Boolean);
  return html`<dl class="tiles figures">${tiles.map(([label, value, detail, kind = ""]) => html`<div key=${label} class="tile ${kind}"><dt>${label}</dt><dd><b>${value}</b><span>${detail}</span></dd></div>`)}</dl>`;
}

function Results({ attempts, turnedAway }) {
  const rows = Object.entries(attempts.refused).sort((one, other) => other[1] - one[1]).map(([reason, count]) => [OUTCOMES[reason] || reason, count]);
  const all = [["Reserved", attempts.granted], ["Repeated request", attempts.repeated], ...rows,
    ["Rate limited", turnedAway.limited], ["Shed under load", turnedAway.shed]].filter(([label, count]) => count || label === "Reserved");
  return html`<section class="card panel"><h2>Results so far</h2><table class="figures"><tbody>
    ${all.map(([label, count]) => html`<tr key=${label}><th scope="row">${label}</th><td>${number(count)}</td></tr>`)}</tbody></table></section>`;
}

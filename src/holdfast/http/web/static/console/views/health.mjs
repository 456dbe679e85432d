import { get, post } from "../api.mjs";
import { attempt, Heading, Tag } from "../components.mjs";
import { features, number, plural, seconds, time } from "../format.mjs";
import { html, useState } from "../html.mjs";
import { useEvery } from "../store.mjs";
import * as paths from "../../paths.mjs";

const KINDS = { capability: "Capabilities", store: "Stores", gate: "Gate", payment: "Payments", agent: "Background tasks" };

export function HealthView() {
  const [health, setHealth] = useState(null);
  const [pools, setPools] = useState(null);
  const [busy, setBusy] = useState(false);
  useEvery(2000, async () => setHealth(await get(paths.getHealth()).catch(() => health)));
  useEvery(5000, async () => setPools(await get(paths.getPools()).catch(() => pools)));
  const reconcile = async () => {
    setBusy(true);
    await attempt(async () => {
      const found = await post(paths.reconcile());
      setPools(found);
      if (!found.payments.ok) throw new Error(`Payments: ${plural(found.payments.findings.length, "finding")}. See the server log.`);
    }, "Checked all pools and payments.");
    setBusy(false);
  };
  return html`<${Heading} title="Health"><button class="button" onClick=${reconcile} disabled=${busy}>Check now</button><//>
    ${health && html`<${Overview} health=${health} /><${Dependencies} health=${health} />`}
    ${pools && html`<${Pools} pools=${pools} />`}`;
}

function Overview({ health }) {
  const { load } = health;
  const degraded = load.degraded_features;
  const tiles = [
    ["Status", health.ok ? "Healthy" : "Unhealthy", `Holdfast ${health.version}`, health.ok ? "good" : "bad"],
    ["Requests in flight", number(load.in_flight), `of at most ${number(load.in_flight_max)}`],
    ["Degraded features", degraded.length ? number(degraded.length) : "None", features(degraded) || "no overload", degraded.length ? "warn" : ""],
  ];
  return html`<dl class="tiles figures">${tiles.map(([label, value, detail, kind = ""]) => html`<div key=${label} class="tile ${kind}"><dt>${label}</dt><dd><b>${value}</b><span>${detail}</span></dd></div>`)}</dl>`;
}

function Dependencies({ health }) {
  const kinds = Object.keys(KINDS).filter((kind) => health.data.some((one) => one.kind === kind));
  return html`<div class="health-groups"><div class="stack">${kinds.filter((kind) => kind !== "agent").map(group(health))}</div>${kinds.includes("agent") && group(health)("agent")}</div>`;
}

function group(health) {
  return (kind) => html`<section key=${kind} class="card"><h2 class="section-title">${KINDS[kind]}</h2><ul class="dependencies">${health.data.filter((one) => one.kind === kind).map((one) => html`
    <li key=${one.name}><i class="light ${one.ok ? "good" : "bad"}"></i><b>${one.name.replaceAll("_", " ")}</b><span class="quiet">${one.ok ? one.detail : one.detail.replaceAll("_", " ")}${one.ok || one.age_ms === null ? "" : ` for ${seconds(one.age_ms / 1000)}`}</span></li>`)}</ul></section>`;
}

function Pools({ pools }) {
  return html`<section><h2 class="section-title">Gate and ledger consistency</h2><div class="scroll" tabindex="0" role="region" aria-label="Pools"><table class="log figures">
    <thead><tr><th>SKU</th><th>Status</th><th>Available</th><th>Held</th><th>Sold</th><th>Total</th><th>Lag</th><th>Checked</th></tr></thead><tbody>
    ${pools.data.map((pool) => html`<tr key=${pool.sku_id}><td class="code">${pool.sku_id}</td><td><${Tag} kind=${pool.ok ? "good" : "bad"}>${pool.ok ? "Consistent" : pool.finding}<//></td>
      <td>${number(pool.available)}</td><td>${number(pool.held)}</td><td>${number(pool.sold)}</td><td>${number(pool.total_units)}</td><td>${number(pool.journal_lag)}</td><td>${time(pool.checked_at)}</td></tr>`)}</tbody></table></div></section>`;
}

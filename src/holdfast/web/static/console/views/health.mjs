import { get, post } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { attempt, Heading, Tag } from "../parts.mjs";
import { useEvery } from "../store.mjs";
import { milliseconds, number, plural, time } from "../words.mjs";

const KINDS = { store: "Store", gate: "Gate", payment: "Payments", agent: "Background work" };

export function HealthView() {
  const [health, setHealth] = useState(null);
  const [pools, setPools] = useState(null);
  const [busy, setBusy] = useState(false);
  useEvery(2000, async () => setHealth(await get("/v1/ops/health").catch(() => health)));
  useEvery(5000, async () => setPools(await get("/v1/ops/pools").catch(() => pools)));
  const reconcile = async () => {
    setBusy(true);
    await attempt(async () => {
      const found = await post("/v1/ops/reconcile");
      setPools(found);
      if (!found.payments.ok) throw new Error(`Payments: ${plural(found.payments.findings.length, "finding")}, see the log.`);
    }, "Every pool and every payment was looked at.");
    setBusy(false);
  };
  return html`<${Heading} title="Health"><button class="button" onClick=${reconcile} disabled=${busy}>Check everything now</button><//>
    ${health && html`<${Load} health=${health} /><${Dependencies} health=${health} />`}
    ${pools && html`<${Pools} pools=${pools} />`}`;
}

function Load({ health }) {
  const { load } = health;
  const tiles = [
    ["Everything", health.ok ? "Well" : "Not well", `Holdfast ${health.version}`, health.ok ? "good" : "bad"],
    ["Under way", number(load.under_way), `of ${number(load.under_way_max)} at once`],
    ["Switched off", load.switched_off.length ? number(load.switched_off.length) : "Nothing", load.switched_off.join(", ") || "no pressure", load.switched_off.length ? "warn" : ""],
  ];
  return html`<dl class="tiles figures">${tiles.map(([label, value, detail, kind = ""]) => html`<div key=${label} class="tile ${kind}"><dt>${label}</dt><dd><b>${value}</b><span>${detail}</span></dd></div>`)}</dl>`;
}

function Dependencies({ health }) {
  const kinds = Object.keys(KINDS).filter((kind) => health.data.some((one) => one.kind === kind));
  return html`<div class="health-groups"><div class="stack">${kinds.filter((kind) => kind !== "agent").map(group(health))}</div>${kinds.includes("agent") && group(health)("agent")}</div>`;
}

function group(health) {
  return (kind) => html`<section key=${kind} class="card"><h2 class="part">${KINDS[kind]}</h2><ul class="dependencies">${health.data.filter((one) => one.kind === kind).map((one) => html`
    <li key=${one.name}><i class="light ${one.ok ? "good" : "bad"}"></i><b>${one.name.replace("_", " ")}</b><span class="quiet">${one.answered_in_ms === null ? one.detail : `${one.detail} in ${milliseconds(one.answered_in_ms)}`}</span></li>`)}</ul></section>`;
}

function Pools({ pools }) {
  return html`<section><h2 class="part">Do gate and ledger agree?</h2><div class="scroll" tabindex="0" role="region" aria-label="Pools"><table class="log figures">
    <thead><tr><th>SKU</th><th>Verdict</th><th>Available</th><th>Held</th><th>Sold</th><th>Total</th><th>Behind</th><th>Looked</th></tr></thead><tbody>
    ${pools.data.map((pool) => html`<tr key=${pool.sku_id}><td class="code">${pool.sku_id}</td><td><${Tag} kind=${pool.ok ? "good" : "bad"}>${pool.ok ? "agree" : pool.finding}<//></td>
      <td>${number(pool.available)}</td><td>${number(pool.held)}</td><td>${number(pool.sold)}</td><td>${number(pool.total_units)}</td><td>${number(pool.journal_lag)}</td><td>${time(pool.checked_at)}</td></tr>`)}</tbody></table></div></section>`;
}

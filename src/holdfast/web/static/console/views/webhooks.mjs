import { call, get, post, remove } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { ask, attempt, Empty, Field, Heading, Tag, tell } from "../parts.mjs";
import { useEvery } from "../store.mjs";
import { moment, number } from "../words.mjs";
import { Secret } from "./secret.mjs";

const STATES = { done: "good", waiting: "warn", parked: "bad", dropped: "" };

export function WebhooksView() {
  const [webhooks, setWebhooks] = useState(null);
  const [made, setMade] = useState(null);
  const look = async () => setWebhooks((await get("/v1/webhooks").catch(() => ({ data: webhooks }))).data);
  useEvery(5000, look);
  return html`<${Heading} title="Webhooks"><//>
    ${made && html`<${Secret} title="The secret that signs its deliveries" text=${made.secret} onDone=${() => setMade(null)} />`}
    <${Add} onMade=${(webhook) => { setMade(webhook); look(); }} />
    ${webhooks?.length === 0 && !made && html`<${Empty}>Nobody is told of anything yet.<//>`}
    <ul class="stack">${(webhooks || []).map((webhook) => html`<li key=${webhook.webhook_id} class="card row">
      <div><h2><a href="#/webhooks/${webhook.webhook_id}">${webhook.url}</a></h2><p class="quiet">${webhook.events.join(", ")}${webhook.description ? ` · ${webhook.description}` : ""}</p></div>
      <${Tag} kind=${webhook.enabled ? "good" : "warn"}>${webhook.enabled ? "Enabled" : "Disabled"}<//></li>`)}</ul>`;
}

function Add({ onMade }) {
  const [given, setGiven] = useState({ url: "", events: "*" });
  const [wrong, setWrong] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    try {
      onMade(await post("/v1/webhooks", { url: given.url, events: given.events.split(/[\s,]+/).filter(Boolean) }));
      setGiven({ url: "", events: "*" });
      setWrong({});
    } catch (problem) {
      const fields = problem.fields || {};
      setWrong({ url: fields.url, events: Object.entries(fields).find(([name]) => name.startsWith("events"))?.[1] });
      if (!Object.keys(fields).length) tell(problem.message, "bad");
    }
  };
  const input = (name, label, more) => html`<${Field} name=${name} label=${label} value=${given[name]} wrong=${wrong[name]} ...${more}
    onInput=${(event) => setGiven({ ...given, [name]: event.target.value })} />`;
  return html`<form class="inline wide-first" onSubmit=${submit}>
    ${input("url", "Address", { placeholder: "https://shop.example/holdfast" })}${input("events", "Events", { hint: "order.*, pool.sold_out, … or * for all" })}
    <button class="button main">Add webhook</button></form>`;
}

export function WebhookView({ id }) {
  const [webhook, setWebhook] = useState(null);
  const [log, setLog] = useState(null);
  const [state, setState] = useState("");
  const [secret, setSecret] = useState(null);
  const path = `/v1/webhooks/${encodeURIComponent(id)}`;
  const look = async () => {
    try {
      const [one, page] = await Promise.all([get(path), get(`${path}/deliveries?limit=50${state && `&state=${state}`}`)]);
      setWebhook(one);
      setLog(page);
    } catch {
      // What was seen last stays, and the bar at the top says since when.
    }
  };
  useEvery(2000, look, [id, state]);
  const act = async (work, done) => {
    await attempt(work, done);
    await look();
  };
  const leave = async () => {
    const goesOn = await ask({ title: "Remove this webhook?", text: "All that waits for it is dropped, and its log with it.", action: "Remove", harmful: true, typed: "remove" });
    if (goesOn && (await attempt(() => remove(path), "Removed."))) location.hash = "#/webhooks";
  };
  const rotate = async () => {
    if (await ask({ title: "Make a new secret?", text: "The old one signs beside it for 24 hours.", action: "Rotate" })) await act(async () => setSecret((await post(`${path}/rotate-secret`)).secret));
  };
  if (!webhook) return html`<${Heading} title="Webhook"><//>`;
  return html`<${Heading} title="Webhook"><${Tag} kind=${webhook.enabled ? "good" : "warn"}>${webhook.enabled ? "Enabled" : "Disabled"}<//><//>
    <p class="lead code">${webhook.url}</p><p class="quiet">${webhook.events.join(", ")}</p>
    ${secret && html`<${Secret} title="The new secret" text=${secret} onDone=${() => setSecret(null)} />`}
    <div class="actions">
      <button class="button" onClick=${() => act(() => post(`${path}/test`), "A test is on its way.")}>Send a test</button>
      <button class="button" onClick=${() => act(() => call("PATCH", path, { enabled: !webhook.enabled }), webhook.enabled ? "Disabled." : "Enabled: it goes on where it stopped.")}>${webhook.enabled ? "Disable" : "Enable"}</button>
      <button class="button" onClick=${rotate}>New secret…</button>
      <button class="button harmful-outline" onClick=${leave}>Remove…</button>
    </div>
    <div class="log-head"><h2 class="part">Deliveries</h2>
      <label>Show <select value=${state} onChange=${(event) => setState(event.target.value)}><option value="">all</option>${Object.keys(STATES).map((one) => html`<option value=${one}>${one}</option>`)}</select></label></div>
    ${log?.data.length === 0 && html`<${Empty}>Nothing was sent yet.<//>`}
    ${log && log.data.length > 0 && html`<${Log} deliveries=${log.data} replay=${(one) => act(() => post(`${path}/replay`, { delivery_id: one.delivery_id }), "It is sent again.")} />`}`;
}

function Log({ deliveries, replay }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Deliveries"><table class="log figures"><thead><tr><th>Event</th><th>Subject</th><th>State</th><th>Answer</th><th>Attempts</th><th>Made</th><th><span class="unseen">Actions</span></th></tr></thead><tbody>
    ${deliveries.map((one) => html`<tr key=${one.delivery_id}><td>${one.type}</td><td class="code">${one.subject}</td><td><${Tag} kind=${STATES[one.state]}>${one.state}<//></td>
      <td>${one.last_status ?? one.reason ?? one.history.at(-1)?.error ?? "–"}</td><td>${number(one.attempts)}</td><td>${moment(one.created_at)}</td>
      <td><button class="button small" onClick=${() => replay(one)}>Replay<span class="unseen"> ${one.type} ${one.delivery_id}</span></button></td></tr>`)}</tbody></table></div>`;
}

import { call, get, post, remove } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { confirmDialog, attempt, Empty, Field, Heading, Tag, showNotice } from "../components.mjs";
import { useEvery } from "../store.mjs";
import { dateTime, number } from "../format.mjs";
import { Secret } from "./secret.mjs";
import * as paths from "../../paths.mjs";

const STATES = { done: ["Delivered", "good"], waiting: ["Pending", "warn"], parked: ["Needs attention", "bad"], dropped: ["Dropped", ""] };

export function WebhooksView() {
  const [webhooks, setWebhooks] = useState(null);
  const [created, setCreated] = useState(null);
  const refresh = async () => setWebhooks((await get(paths.listWebhooks()).catch(() => ({ data: webhooks }))).data);
  useEvery(5000, refresh);
  return html`<${Heading} title="Webhooks"><//>
    ${created && html`<${Secret} title="Signing secret" text=${created.secret} onDone=${() => setCreated(null)} />`}
    <${AddWebhook} onCreated=${(webhook) => { setCreated(webhook); refresh(); }} />
    ${webhooks?.length === 0 && !created && html`<${Empty}>No webhooks yet.<//>`}
    <ul class="stack">${(webhooks || []).map((webhook) => html`<li key=${webhook.webhook_id} class="card row">
      <div><h2><a href="#/webhooks/${webhook.webhook_id}">${webhook.url}</a></h2><p class="quiet">${webhook.events.join(", ")}${webhook.description ? ` · ${webhook.description}` : ""}</p></div>
      <${Tag} kind=${webhook.enabled ? "good" : "warn"}>${webhook.enabled ? "Enabled" : "Disabled"}<//></li>`)}</ul>`;
}

function AddWebhook({ onCreated }) {
  const [form, setForm] = useState({ url: "", events: "*" });
  const [errors, setErrors] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    try {
      onCreated(await post(paths.createWebhook(), { url: form.url, events: form.events.split(/[\s,]+/).filter(Boolean) }));
      setForm({ url: "", events: "*" });
      setErrors({});
    } catch (problem) {
      const fields = problem.fields || {};
      setErrors({ url: fields.url, events: Object.entries(fields).find(([name]) => name.startsWith("events"))?.[1] });
      if (!Object.keys(fields).length) showNotice(problem.message, "bad");
    }
  };
  const input = (name, label, more) => html`<${Field} name=${name} label=${label} value=${form[name]} error=${errors[name]} ...${more}
    onInput=${(event) => setForm({ ...form, [name]: event.target.value })} />`;
  return html`<form class="inline wide-first" onSubmit=${submit}>
    ${input("url", "URL", { placeholder: "https://shop.example/holdfast" })}${input("events", "Events", { hint: "For example order.*, pool.sold_out, or * for all." })}
    <button class="button main">Add webhook</button></form>`;
}

export function WebhookView({ id }) {
  const [webhook, setWebhook] = useState(null);
  const [log, setLog] = useState(null);
  const [state, setState] = useState("");
  const [secret, setSecret] = useState(null);
  const path = paths.getWebhook(id);
  const refresh = async () => {
    try {
      const [one, page] = await Promise.all([get(path), get(`${paths.listDeliveries(id)}?limit=50${state && `&state=${state}`}`)]);
      setWebhook(one);
      setLog(page);
    } catch {
      // Keep the last data; the banner at the top shows the lost connection.
    }
  };
  useEvery(2000, refresh, [id, state]);
  const act = async (work, done) => {
    await attempt(work, done);
    await refresh();
  };
  const deleteWebhook = async () => {
    const confirmed = await confirmDialog({ title: "Delete this webhook?", text: "Its pending deliveries and its delivery log are deleted too.", action: "Delete", danger: true, typed: "delete" });
    if (confirmed && (await attempt(() => remove(path), "Webhook deleted."))) location.hash = "#/webhooks";
  };
  const rotate = async () => {
    if (await confirmDialog({ title: "Rotate the signing secret?", text: "Deliveries are signed with both secrets for 24 hours.", action: "Rotate" })) await act(async () => setSecret((await post(paths.rotateSecret(id))).secret));
  };
  if (!webhook) return html`<${Heading} title="Webhook"><//>`;
  return html`<${Heading} title="Webhook"><${Tag} kind=${webhook.enabled ? "good" : "warn"}>${webhook.enabled ? "Enabled" : "Disabled"}<//><//>
    <p class="lead code">${webhook.url}</p><p class="quiet">${webhook.events.join(", ")}</p>
    ${secret && html`<${Secret} title="New signing secret" text=${secret} onDone=${() => setSecret(null)} />`}
    <div class="actions">
      <button class="button" onClick=${() => act(() => post(paths.sendTest(id)), "Test event queued.")}>Send test event</button>
      <button class="button" onClick=${() => act(() => call("PATCH", path, { enabled: !webhook.enabled }), webhook.enabled ? "Webhook disabled." : "Webhook enabled. Delivery resumes where it stopped.")}>${webhook.enabled ? "Disable" : "Enable"}</button>
      <button class="button" onClick=${rotate}>Rotate secret…</button>
      <button class="button danger-outline" onClick=${deleteWebhook}>Delete…</button>
    </div>
    <div class="log-head"><h2 class="section-title">Deliveries</h2>
      <label>Show <select value=${state} onChange=${(event) => setState(event.target.value)}><option value="">All</option>${Object.entries(STATES).map(([value, [label]]) => html`<option value=${value}>${label}</option>`)}</select></label></div>
    ${log?.data.length === 0 && html`<${Empty}>No deliveries yet.<//>`}
    ${log && log.data.length > 0 && html`<${Log} deliveries=${log.data} replay=${(one) => act(() => post(paths.replay(id), { delivery_id: one.delivery_id }), "Queued for redelivery.")} />`}`;
}

function Log({ deliveries, replay }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Deliveries"><table class="log figures"><thead><tr><th>Event</th><th>Subject</th><th>State</th><th>Response</th><th>Attempts</th><th>Created</th><th><span class="visually-hidden">Actions</span></th></tr></thead><tbody>
    ${deliveries.map((one) => html`<tr key=${one.delivery_id}><td>${one.type}</td><td class="code">${one.subject}</td><td><${Tag} kind=${STATES[one.state][1]}>${STATES[one.state][0]}<//></td>
      <td>${one.last_status ?? one.reason ?? one.history.at(-1)?.error ?? "–"}</td><td>${number(one.attempts)}</td><td>${dateTime(one.created_at)}</td>
      <td><button class="button small" onClick=${() => replay(one)}>Replay<span class="visually-hidden"> ${one.type} ${one.delivery_id}</span></button></td></tr>`)}</tbody></table></div>`;
}

import { get, post, remove, session } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { confirmDialog, attempt, Empty, Field, Heading, Tag, showNotice } from "../components.mjs";
import { useEvery, useStore } from "../store.mjs";
import { dateTime } from "../format.mjs";
import { Secret } from "./secret.mjs";
import * as paths from "../../paths.mjs";

const SCOPES = { read: "see everything, change nothing", inventory: "reserve, confirm, set stock", sales: "create and change sales", operate: "monitor, reconcile, manage webhooks", money: "refund, credit wallets", admin: "manage keys" };

export function KeysView() {
  const [keys, setKeys] = useState(null);
  const [created, setCreated] = useState(null);
  const refresh = async () => setKeys((await get(paths.listKeys()).catch(() => ({ data: keys }))).data);
  useEvery(5000, refresh);
  const revoke = async (key) => {
    const confirmed = await confirmDialog({ title: `Revoke ${key.name}?`, text: "Requests with this key and with keys made by it are refused from now on, and their console sessions end.", action: "Revoke", danger: true });
    if (confirmed) await attempt(() => remove(paths.revokeKey(key.key_id)), `${key.name} revoked.`);
    await refresh();
  };
  return html`<${Heading} title="Service keys"><//>
    <p class="quiet lead">The admin key is not listed: it is a server setting.</p>
    ${created && html`<${Secret} title=${`New key: ${created.name}`} text=${created.key} onDone=${() => setCreated(null)} />`}
    <${CreateKey} onCreated=${(key) => { setCreated(key); refresh(); }} />
    ${keys?.length === 0 && !created && html`<${Empty}>No service keys yet.<//>`}
    <ul class="stack">${(keys || []).map((key) => html`<li key=${key.key_id} class="card row ${key.revoked_at ? "is-revoked" : ""}">
      <div><h2>${key.name}</h2><p class="quiet"><span class="code">hf_${key.key_id}_…</span> · ${key.scopes.join(", ")} · created ${dateTime(key.created_at)}</p></div>
      ${key.revoked_at ? html`<${Tag}>Revoked ${dateTime(key.revoked_at)}<//>` : html`<button class="button small danger-outline" onClick=${() => revoke(key)}>Revoke…<span class="visually-hidden"> ${key.name}</span></button>`}</li>`)}</ul>`;
}

function CreateKey({ onCreated }) {
  const ownScopes = useStore(session)?.scopes || [];
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState(["operate"]);
  const [errors, setErrors] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    try {
      onCreated(await post(paths.createKey(), { name, scopes }));
      setName("");
      setErrors({});
    } catch (problem) {
      setErrors(problem.fields || {});
      if (!Object.keys(problem.fields || {}).length) showNotice(problem.message, "bad");
    }
  };
  const toggle = (scope) => setScopes(scopes.includes(scope) ? scopes.filter((one) => one !== scope) : [...scopes, scope]);
  return html`<form class="card key-form" onSubmit=${submit}>
    <${Field} name="name" label="Name" placeholder="checkout" value=${name} error=${errors.name} onInput=${(event) => setName(event.target.value)} />
    <fieldset><legend>Scopes</legend>${Object.entries(SCOPES).filter(([scope]) => ownScopes.includes(scope)).map(([scope, what]) => html`<label key=${scope} class="check"><input type="checkbox" checked=${scopes.includes(scope)} onChange=${() => toggle(scope)} /> <b>${scope}</b> <span class="quiet">${what}</span></label>`)}
      ${errors.scopes && html`<p class="error">${errors.scopes}</p>`}</fieldset>
    <button class="button main">Create key</button></form>`;
}

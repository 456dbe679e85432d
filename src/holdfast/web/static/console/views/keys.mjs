import { get, post, remove, session } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { ask, attempt, Empty, Field, Heading, Tag, tell } from "../parts.mjs";
import { useEvery, useStore } from "../store.mjs";
import { moment } from "../words.mjs";
import { Secret } from "./secret.mjs";

const SCOPES = { inventory: "reserve, confirm, set totals", sales: "make and change sales", operate: "watch, reconcile, webhooks, keys" };

export function KeysView() {
  const [keys, setKeys] = useState(null);
  const [made, setMade] = useState(null);
  const look = async () => setKeys((await get("/v1/ops/keys").catch(() => ({ data: keys }))).data);
  useEvery(5000, look);
  const revoke = async (key) => {
    const goesOn = await ask({ title: `Revoke ${key.name}?`, text: "Whoever uses it is refused within five seconds, and sessions begun with it end.", action: "Revoke", harmful: true });
    if (goesOn) await attempt(() => remove(`/v1/ops/keys/${key.key_id}`), `${key.name} is revoked.`);
    await look();
  };
  return html`<${Heading} title="Service keys"><//>
    <p class="quiet lead">The key with every scope is not among them: it is a setting of the server.</p>
    ${made && html`<${Secret} title=${`The key ${made.name}`} text=${made.key} onDone=${() => setMade(null)} />`}
    <${Make} onMade=${(key) => { setMade(key); look(); }} />
    ${keys?.length === 0 && !made && html`<${Empty}>No further key was made.<//>`}
    <ul class="stack">${(keys || []).map((key) => html`<li key=${key.key_id} class="card row ${key.revoked_at ? "is-over" : ""}">
      <div><h2>${key.name}</h2><p class="quiet"><span class="code">hf_${key.key_id}_…</span> · ${key.scopes.join(", ")} · made ${moment(key.created_at)}</p></div>
      ${key.revoked_at ? html`<${Tag}>Revoked ${moment(key.revoked_at)}<//>` : html`<button class="button small harmful-outline" onClick=${() => revoke(key)}>Revoke…<span class="unseen"> ${key.name}</span></button>`}</li>`)}</ul>`;
}

function Make({ onMade }) {
  const mine = useStore(session)?.scopes || [];
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState(["operate"]);
  const [wrong, setWrong] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    try {
      onMade(await post("/v1/ops/keys", { name, scopes }));
      setName("");
      setWrong({});
    } catch (problem) {
      setWrong(problem.fields || {});
      if (!Object.keys(problem.fields || {}).length) tell(problem.message, "bad");
    }
  };
  const toggle = (scope) => setScopes(scopes.includes(scope) ? scopes.filter((one) => one !== scope) : [...scopes, scope]);
  return html`<form class="card key-form" onSubmit=${submit}>
    <${Field} name="name" label="What it is for" placeholder="checkout" value=${name} wrong=${wrong.name} onInput=${(event) => setName(event.target.value)} />
    <fieldset><legend>It may</legend>${Object.entries(SCOPES).filter(([scope]) => mine.includes(scope)).map(([scope, what]) => html`<label key=${scope} class="check"><input type="checkbox" checked=${scopes.includes(scope)} onChange=${() => toggle(scope)} /> <b>${scope}</b> <span class="quiet">${what}</span></label>`)}
      ${wrong.scopes && html`<p class="wrong">${wrong.scopes}</p>`}</fieldset>
    <button class="button main">Make a key</button></form>`;
}

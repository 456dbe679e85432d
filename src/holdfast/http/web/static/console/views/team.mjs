import { get, may, post, remove, session } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { attempt, confirmDialog, Empty, Field, Heading, showNotice, Tag } from "../components.mjs";
import { useEvery, useStore } from "../store.mjs";
import { dateTime } from "../format.mjs";
import { Approvals } from "./approvals.mjs";
import { Secret } from "./secret.mjs";
import * as paths from "../../paths.mjs";

const ROLES = {
  viewer: "see everything, change nothing",
  support: "monitor, retry and drop what needs attention, webhooks",
  seller: "stock and sales",
  finance: "refunds, wallets, what needs attention",
  admin: "everything, operators and keys included",
};
const METHODS = { key: "with a key", password: "with a password", invitation: "by invitation", oidc: "with the identity provider" };

export function TeamView() {
  const signedIn = useStore(session);
  return html`<${Heading} title="Team"><a class="button" href="#/team/actions">What was done</a><//>
    <p class="quiet lead">You are ${signedIn.name || "using the admin key"}${signedIn.role ? `, ${signedIn.role}` : ""}.</p>
    <${Approvals} />
    ${may("admin") && html`<${Operators} />`}
    ${(may("admin") || signedIn.operator_id) && html`<${Sessions} />`}`;
}

function Operators() {
  const [operators, setOperators] = useState(null);
  const [invited, setInvited] = useState(null);
  const refresh = async () => setOperators((await get(paths.listOperators()).catch(() => ({ data: operators }))).data);
  useEvery(5000, refresh);
  const disable = async (one) => {
    const text = "Their sessions end, and the keys they made are revoked. Invite them again to undo it.";
    const confirmed = await confirmDialog({ title: `Disable ${one.name}?`, text, action: "Disable", danger: true });
    if (confirmed) await attempt(() => post(paths.disableOperator(one.operator_id)), `${one.name} is disabled.`);
    await refresh();
  };
  const link = invited && new URL(invited.link, location.href).href;
  return html`<h2>Operators</h2>
    ${invited && html`<${Secret} title=${`Send this link to ${invited.name}`} text=${link} onDone=${() => setInvited(null)} />`}
    <${Invite} onInvited=${(one) => { setInvited(one); refresh(); }} />
    ${operators?.length === 0 && html`<${Empty}>Nobody was invited yet. Everybody with a key can sign in.<//>`}
    <ul class="stack">${(operators || []).map((one) => html`<li key=${one.operator_id} class="card row ${one.disabled_at ? "is-revoked" : ""}">
      <div><h3>${one.name}</h3><p class="quiet">${one.email} · ${one.role} · ${standing(one)}</p></div>
      ${one.disabled_at ? html`<${Tag}>Disabled ${dateTime(one.disabled_at)}<//>` : html`<button class="button small danger-outline" onClick=${() => disable(one)}>Disable…<span class="visually-hidden"> ${one.name}</span></button>`}</li>`)}</ul>`;
}

const standing = (one) => (one.joined_at ? `joined ${dateTime(one.joined_at)}` : one.invitation_expires_at ? `invited until ${dateTime(one.invitation_expires_at)}` : "not joined");

function Invite({ onInvited }) {
  const [given, setGiven] = useState({ email: "", name: "", role: "viewer" });
  const [errors, setErrors] = useState({});
  const change = (name) => (event) => setGiven({ ...given, [name]: event.target.value });
  const submit = async (event) => {
    event.preventDefault();
    try {
      onInvited(await post(paths.inviteOperator(), given));
      setGiven({ email: "", name: "", role: "viewer" });
      setErrors({});
    } catch (problem) {
      setErrors(problem.fields || {});
      if (!Object.keys(problem.fields || {}).length) showNotice(problem.message, "bad");
    }
  };
  return html`<form class="card key-form" onSubmit=${submit}>
    <${Field} name="email" label="Email address" type="email" value=${given.email} error=${errors.email} onInput=${change("email")} required />
    <${Field} name="name" label="Name" value=${given.name} error=${errors.name} onInput=${change("name")} required />
    <${Field} name="role" label="Role" hint=${ROLES[given.role]} error=${errors.role}>${(shared) => html`<select ...${shared} value=${given.role} onChange=${change("role")}>
      ${Object.keys(ROLES).map((role) => html`<option key=${role} value=${role}>${role}</option>`)}</select>`}<//>
    <button class="button main">Invite</button></form>`;
}

function Sessions() {
  const [sessions, setSessions] = useState([]);
  const refresh = async () => setSessions((await get(paths.listSessions()).catch(() => ({ data: sessions }))).data);
  useEvery(5000, refresh);
  const end = async (one) => {
    await attempt(() => remove(paths.revokeSession(one.session_id)), "The session has ended.");
    await refresh();
  };
  return html`<h2>Sessions</h2>
    <ul class="stack">${sessions.map((one) => html`<li key=${one.session_id} class="card row">
      <div><h3>${one.name || "Admin key"}</h3><p class="quiet">signed in ${METHODS[one.method] || one.method} ${dateTime(one.created_at)} · until ${dateTime(one.expires_at)}</p></div>
      ${one.is_current ? html`<${Tag}>This one<//>` : html`<button class="button small danger-outline" onClick=${() => end(one)}>End<span class="visually-hidden"> the session of ${one.name || "the admin key"}</span></button>`}</li>`)}</ul>`;
}

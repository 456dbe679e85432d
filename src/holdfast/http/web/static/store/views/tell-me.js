/**
 * "Tell me", by mail or with a notification: a button that asks the server for nothing before it is pressed.
 * `purpose`: "turn", "order" or "next".
 */
import { contactOf } from "../../holdfast.js";
import { useEffect, useMemo, useRef, useState } from "../../vendor/hooks.mjs";
import { fetchToken } from "../hooks.js";
import { html } from "../html.js";
import { canNotify, subscribe, subscription, unsubscribe } from "../notifications.js";

export function TellMe(page) {
  const { t, config, sale, purpose } = page;
  const telling = useTelling(page);
  const { found, error, byMail, byPush } = telling;
  if (!sale?.notify || !config?.token_url || !(byMail || byPush || found || error)) return null;
  const form = { ...page, ...telling };
  const isAsked = found && (purpose !== "next" || found.next_sale);
  return html`
    <section class="tell">
      ${found === undefined && (byMail || byPush) && html`<${Offer} ...${form} />`}
      ${isAsked && html`<${Asked} ...${form} />`}
      ${found !== undefined && html`<${Ways} ...${form} isAsked=${isAsked} />`}
      ${error && html`<p class="note warn" role="alert">${t.tell[error] ?? t.refused[error]?.[1] ?? t.tell.failed}</p>`}
    </section>
  `;
}

/** What the buyer asked for, and how to change it. `found`: undefined is not looked up, null is nothing. */
function useTelling({ config, language, purpose }) {
  const contact = useMemo(() => contactOf({ token: () => fetchToken(config?.token_url) }), [config]);
  const [found, setFound] = useState(undefined);
  const [isHere, setHere] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [isUnable, setUnable] = useState(false);
  const key = config?.messages?.push;
  const failed = ({ reason = "failed" }) => {
    setError(reason);
    if (reason === "unavailable") setUnable(true);
  };
  const attempt = async (act) => {
    setBusy(true);
    setError(null);
    await act().then(setFound, failed);
    setBusy(false);
  };
  const ask = (more, known = found) => {
    const nextSale = purpose === "next" || Boolean(known?.next_sale);
    return contact.ask({ locale: language.slice(0, 2), next_sale: nextSale, ...more });
  };
  const askHere = async (push, known, more = {}) => {
    const asked = await ask({ push, ...more }, known);
    setHere(true);
    return asked;
  };
  const look = async () => {
    const known = await contact.find();
    const push = known?.devices && key ? await subscription().catch(() => null) : null;
    // Sent again: it may have changed, or belong to another buyer of this browser.
    return push ? askHere(push, known, { next_sale: known.next_sale }) : known;
  };
  const notify = async () => {
    const push = await subscribe(key);
    return askHere(push, found === undefined ? await contact.find() : found);
  };
  const end = async () => {
    await contact.end();
    await unsubscribe();
    setHere(false);
    return null;
  };
  return {
    found,
    isHere,
    isBusy,
    error,
    byMail: Boolean(config?.messages?.mail),
    byPush: canNotify(key) && !isUnable,
    onLook: () => attempt(look),
    onNotify: () => attempt(notify),
    onMail: (email) => attempt(() => ask({ email })),
    onEnd: () => attempt(end),
  };
}

function Offer({ t, purpose, byMail, onLook, onNotify, isBusy }) {
  const look = purpose === "next" ? "button main large" : "button";
  return html`<button type="button" class=${look} disabled=${isBusy} onClick=${byMail ? onLook : onNotify}>
    ${t.tell.offer[purpose]}
  </button>`;
}

/** Those that are not used yet. */
function Ways(page) {
  const { t, purpose, found, isAsked, isHere, byMail, byPush, onNotify, isBusy } = page;
  const hasMail = isAsked && found.email;
  return html`
    ${byMail && !hasMail && html`<${MailForm} ...${page} />`}
    ${byPush && !(isAsked && isHere) && html`
      <button type="button" class="button" disabled=${isBusy} onClick=${onNotify}>${t.tell.byPush}</button>
    `}
    ${!isAsked && (byMail || byPush) && html`<p class="small">${t.tell.what[purpose]}</p>`}
  `;
}

function MailForm({ t, found, isAsked, onMail, isBusy }) {
  const [email, setEmail] = useState(found?.email ?? "");
  const input = useRef(null);
  useEffect(() => {
    if (!isAsked) input.current.focus({ preventScroll: true });
  }, []);
  const ask = (event) => {
    event.preventDefault();
    onMail(email);
  };
  return html`
    <form onSubmit=${ask}>
      <label for="tell-email">${t.tell.email}</label>
      <div class="tell-row">
        <input
          id="tell-email"
          type="email"
          autocomplete="email"
          maxlength="254"
          required
          value=${email}
          onInput=${(event) => setEmail(event.currentTarget.value)}
          ref=${input}
        />
        <button type="submit" class="button" disabled=${isBusy}>${t.tell.byMail}</button>
      </div>
    </form>
  `;
}

function Asked({ t, purpose, found, isHere, onEnd, isBusy }) {
  return html`
    <p class="note" role="status">
      ${found.email && html`${t.tell.asked[purpose](found.email)} `}
      ${isHere && t.tell.askedHere[purpose]}
      ${!found.email && !isHere && t.tell.elsewhere}
    </p>
    <button type="button" class="button plain" disabled=${isBusy} onClick=${onEnd}>${t.tell.end}</button>
  `;
}

/** "Tell me": a button that opens a form, and asks the server for nothing before. `purpose`: "turn" or "next". */
import { contactOf } from "../../holdfast.js";
import { useEffect, useMemo, useRef, useState } from "../../vendor/hooks.mjs";
import { fetchToken } from "../hooks.js";
import { html } from "../html.js";

export function TellMe(page) {
  const { t, config, sale, purpose } = page;
  const contact = useMemo(() => contactOf({ token: () => fetchToken(config?.token_url) }), [config]);
  // Undefined: not looked up. Null: the buyer has not asked for messages.
  const [found, setFound] = useState(undefined);
  const [status, setStatus] = useState("");
  if (!sale?.notify || !config?.token_url || !config.messages?.mail) return null;
  const attempt = async (act) => {
    setStatus("busy");
    try {
      setFound(await act());
      setStatus("");
    } catch (error) {
      setStatus(t.refused[error.reason]?.[1] ?? t.tell.failed);
    }
  };
  const form = { ...page, found, attempt, contact, isBusy: status === "busy" };
  // Somebody may get notifications only.
  const isAsked = found?.email && (purpose === "turn" || found.next_sale);
  return html`
    <section class="tell">
      ${found === undefined && html`<${Offer} ...${form} />`}
      ${found !== undefined && (isAsked ? html`<${Asked} ...${form} />` : html`<${Form} ...${form} />`)}
      ${status && status !== "busy" && html`<p class="note warn" role="alert">${status}</p>`}
    </section>
  `;
}

function Offer({ t, purpose, attempt, contact, isBusy }) {
  const look = purpose === "next" ? "button main large" : "button";
  return html`<button type="button" class=${look} disabled=${isBusy} onClick=${() => attempt(() => contact.find())}>
    ${t.tell.offer[purpose]}
  </button>`;
}

function Form({ t, language, purpose, found, attempt, contact, isBusy }) {
  const [email, setEmail] = useState(found?.email ?? "");
  const input = useRef(null);
  useEffect(() => input.current.focus({ preventScroll: true }), []);
  const ask = (event) => {
    event.preventDefault();
    const wanted = { email, locale: language.slice(0, 2), next_sale: purpose === "next" || Boolean(found?.next_sale) };
    attempt(() => contact.ask(wanted));
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
      <p class="small">${t.tell.what[purpose]}</p>
    </form>
  `;
}

function Asked({ t, purpose, found, attempt, contact, isBusy }) {
  const end = () => contact.end().then(() => null);
  return html`
    <p class="note" role="status">${t.tell.asked[purpose](found.email)}</p>
    <button type="button" class="button plain" disabled=${isBusy} onClick=${() => attempt(end)}>${t.tell.end}</button>
  `;
}

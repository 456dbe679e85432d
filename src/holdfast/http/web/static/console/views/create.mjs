import { get, post, Problem } from "../api.mjs";
import { html, useEffect, useState } from "../html.mjs";
import { Field, Heading, showNotice } from "../components.mjs";
import { minorUnits } from "../format.mjs";
import * as paths from "../../paths.mjs";

const MINUTE = 60_000;
const DEFAULTS = {
  name: "", sale_id: "", sku_id: "", total_units: "500", amount: "49.99", currency: "EUR", description: "", image_url: "",
  starts_at: local(Math.ceil((Date.now() + 10 * MINUTE) / (5 * MINUTE)) * 5 * MINUTE), ends_at: "", per_buyer_limit: "1",
  hold_minutes: "5", checkout: "cart", payment: "wallet", checkout_url: "", mode: "fifo", rate_per_second: "200", pass_minutes: "5", cost: "",
};
const PAYMENTS = [["wallet", "Wallet"], ["sandbox", "Sandbox"], ["stripe", "Stripe"], ["external", "At your own checkout"]];
// They have to be set up on the server.
const PROVIDERS = ["sandbox", "stripe"];
// API field to form field.
const NAMES = {
  "price.amount": "amount", "price.currency": "currency", price: "amount", hold_seconds: "hold_minutes", room: "mode",
  "room.rate_per_second": "rate_per_second", "room.pass_seconds": "pass_minutes", "proof_of_work.cost": "cost", proof_of_work: "cost",
};

/** The format of a datetime-local input. */
function local(at) {
  return new Date(at - new Date(at).getTimezoneOffset() * MINUTE).toISOString().slice(0, 16);
}

const slug = (text) => text.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60);
const whole = (text) => (text === "" ? null : Number(text));
const utc = (text) => (text === "" ? null : new Date(text).toISOString());

function terms(form) {
  const id = form.sale_id || slug(form.name);
  return {
    sale_id: id, sku_id: form.sku_id || id, name: form.name, total_units: whole(form.total_units),
    price: { amount: minorUnits(form.amount, form.currency), currency: form.currency },
    starts_at: utc(form.starts_at), ends_at: utc(form.ends_at), per_buyer_limit: whole(form.per_buyer_limit),
    hold_seconds: Math.round(Number(form.hold_minutes) * 60), checkout: form.checkout, payment: form.payment,
    checkout_url: (form.payment === "external" && form.checkout_url) || null, description: form.description || null, image_url: form.image_url || null,
    room: { mode: form.mode, rate_per_second: whole(form.rate_per_second), pass_seconds: Math.round(Number(form.pass_minutes) * 60) },
    proof_of_work: form.cost === "" ? null : { cost: Number(form.cost) },
  };
}

export function CreateView() {
  const [form, setForm] = useState(DEFAULTS);
  const [errors, setErrors] = useState({});
  const [formError, setFormError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [configured, setConfigured] = useState([]);
  useEffect(() => {
    // A key that may not see the health is offered what needs no provider.
    get(paths.getHealth()).then((health) => setConfigured(health.data.filter((one) => one.kind === "payment").map((one) => one.name)), () => {});
  }, []);
  const input = (name, label, more = {}) => html`<${Field} name=${name} label=${label} value=${form[name]} error=${errors[name]} ...${more}
    onInput=${(event) => setForm({ ...form, [name]: event.target.value })} />`;
  const choice = (name, label, options, hint) => html`<${Field} name=${name} label=${label} hint=${hint} error=${errors[name]}>
    ${(shared) => html`<select ...${shared} value=${form[name]} onChange=${(event) => setForm({ ...form, [name]: event.target.value })}>
      ${options.map(([value, text]) => html`<option value=${value} selected=${value === form[name]}>${text}</option>`)}</select>`}<//>`;
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const created = await post(paths.createSale(), terms(form));
      showNotice(`${created.name} created.`);
      location.hash = `#/sale/${encodeURIComponent(created.sale_id)}`;
    } catch (problem) {
      const fields = problem instanceof Problem ? problem.fields : {};
      const named = Object.fromEntries(Object.entries(fields).map(([field, message]) => [NAMES[field] || field, message]));
      setErrors(named);
      setFormError(Object.keys(named).some((name) => name in DEFAULTS) ? "Please correct the marked fields." : problem.message);
      document.getElementById(`field-${Object.keys(named)[0]}`)?.focus();
    } finally {
      setBusy(false);
    }
  };
  const payments = PAYMENTS.filter(([kind]) => !PROVIDERS.includes(kind) || configured.includes(kind));
  const hasRoom = form.mode !== "off";
  return html`<${Heading} title="New sale"><//>
    <form class="sale-form" onSubmit=${submit} novalidate>
      <fieldset class="card"><legend>Product</legend>
        ${input("name", "Name", { required: true, placeholder: "Sneaker, size 42" })}
        <div class="pair">${input("sale_id", "Sale ID", { placeholder: slug(form.name) || "from the name", hint: "Used in URLs. Cannot be changed.", spellcheck: false })}
          ${input("sku_id", "SKU", { placeholder: form.sale_id || slug(form.name) || "same as the sale ID", hint: "The stock pool.", spellcheck: false })}</div>
        <div class="triple">${input("total_units", "Units", { inputmode: "numeric" })}${input("amount", "Unit price", { inputmode: "decimal" })}
          ${input("currency", "Currency", { maxlength: 3 })}</div>
        ${input("description", "Description")}${input("image_url", "Image URL", { placeholder: "https://…" })}
      </fieldset>
      <fieldset class="card"><legend>Schedule and limits</legend>
        <div class="dates">${input("starts_at", "Starts (local time)", { type: "datetime-local" })}${input("ends_at", "Ends (local time)", { type: "datetime-local", hint: "Empty: until you close it." })}</div>
        <div class="pair">${input("per_buyer_limit", "Units per buyer", { inputmode: "numeric", hint: "Empty: no limit." })}
          ${input("hold_minutes", "Hold time in minutes", { inputmode: "decimal", hint: "At most 30." })}</div>
        <div class="pair">${choice("checkout", "Checkout", [["cart", "Reserve, then pay"], ["instant", "Pay right away"]])}
          ${choice("payment", "Payment", payments)}</div>
        ${form.payment === "external" && input("checkout_url", "Checkout URL", { placeholder: "https://…", spellcheck: false, hint: "Your page that takes the money. Empty: your server finds the cart itself." })}
      </fieldset>
      <fieldset class="card"><legend>Admission</legend>
        ${choice("mode", "Waiting room", [["fifo", "First come, first served"], ["lottery", "Lottery among everyone who joins before the start"], ["off", "None"]])}
        ${hasRoom && html`<div class="pair">${input("rate_per_second", "People per second", { inputmode: "numeric", hint: "Maximum. Slows down automatically under load." })}
          ${input("pass_minutes", "Time to buy in minutes", { inputmode: "decimal", hint: "From the moment it is their turn." })}</div>
          ${input("cost", "Proof of work", { inputmode: "numeric", placeholder: "none", hint: "Attempts needed to join, such as 200. Empty: none." })}`}
      </fieldset>
      ${formError && html`<p class="error" role="alert">${formError}</p>`}
      <div class="actions"><a class="button plain" href="#/sales">Cancel</a><button class="button main" disabled=${busy}>Create sale</button></div>
    </form>`;
}

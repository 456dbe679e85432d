import { post, Problem } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { Field, Heading, tell } from "../parts.mjs";
import { minorUnits } from "../words.mjs";

const MINUTE = 60_000;
const DEFAULTS = {
  name: "", sale_id: "", sku_id: "", total_units: "500", amount: "49.99", currency: "EUR", description: "", image_url: "",
  starts_at: local(Math.ceil((Date.now() + 10 * MINUTE) / (5 * MINUTE)) * 5 * MINUTE), ends_at: "", per_buyer_limit: "1",
  hold_minutes: "5", checkout: "cart", payment: "wallet", mode: "fifo", rate_per_second: "200", pass_minutes: "5", cost: "",
};
// What the server calls a field, and what the form does.
const NAMES = {
  "price.amount": "amount", "price.currency": "currency", price: "amount", hold_seconds: "hold_minutes", room: "mode",
  "room.rate_per_second": "rate_per_second", "room.pass_seconds": "pass_minutes", "proof_of_work.cost": "cost", proof_of_work: "cost",
};

/** As an input of type datetime-local has it. */
function local(at) {
  return new Date(at - new Date(at).getTimezoneOffset() * MINUTE).toISOString().slice(0, 16);
}

const slug = (text) => text.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60);
const whole = (text) => (text === "" ? null : Number(text));
const utc = (text) => (text === "" ? null : new Date(text).toISOString());

function terms(given) {
  const id = given.sale_id || slug(given.name);
  return {
    sale_id: id, sku_id: given.sku_id || id, name: given.name, total_units: whole(given.total_units),
    price: { amount: minorUnits(given.amount, given.currency), currency: given.currency },
    starts_at: utc(given.starts_at), ends_at: utc(given.ends_at), per_buyer_limit: whole(given.per_buyer_limit),
    hold_seconds: Math.round(Number(given.hold_minutes) * 60), checkout: given.checkout, payment: given.payment,
    description: given.description || null, image_url: given.image_url || null,
    room: { mode: given.mode, rate_per_second: whole(given.rate_per_second), pass_seconds: Math.round(Number(given.pass_minutes) * 60) },
    proof_of_work: given.cost === "" ? null : { cost: Number(given.cost) },
  };
}

export function CreateView() {
  const [given, setGiven] = useState(DEFAULTS);
  const [wrong, setWrong] = useState({});
  const [general, setGeneral] = useState(null);
  const [busy, setBusy] = useState(false);
  const input = (name, label, more = {}) => html`<${Field} name=${name} label=${label} value=${given[name]} wrong=${wrong[name]} ...${more}
    onInput=${(event) => setGiven({ ...given, [name]: event.target.value })} />`;
  const choice = (name, label, options, hint) => html`<${Field} name=${name} label=${label} hint=${hint} wrong=${wrong[name]}>
    ${(shared) => html`<select ...${shared} value=${given[name]} onChange=${(event) => setGiven({ ...given, [name]: event.target.value })}>
      ${options.map(([value, text]) => html`<option value=${value} selected=${value === given[name]}>${text}</option>`)}</select>`}<//>`;
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const made = await post("/v1/sales", terms(given));
      tell(`${made.name} is made.`);
      location.hash = `#/sale/${encodeURIComponent(made.sale_id)}`;
    } catch (problem) {
      const fields = problem instanceof Problem ? problem.fields : {};
      const named = Object.fromEntries(Object.entries(fields).map(([field, message]) => [NAMES[field] || field, message]));
      setWrong(named);
      setGeneral(Object.keys(named).some((name) => name in DEFAULTS) ? "Some fields need another look." : problem.message);
      document.getElementById(`field-${Object.keys(named)[0]}`)?.focus();
    } finally {
      setBusy(false);
    }
  };
  const hasRoom = given.mode !== "off";
  return html`<${Heading} title="New sale"><//>
    <form class="sale-form" onSubmit=${submit} novalidate>
      <fieldset class="card"><legend>What is sold</legend>
        ${input("name", "Name", { required: true, placeholder: "Sneaker, size 42" })}
        <div class="pair">${input("sale_id", "Sale id", { placeholder: slug(given.name) || "from the name", hint: "In addresses; never changes.", spellcheck: false })}
          ${input("sku_id", "SKU", { placeholder: given.sale_id || slug(given.name) || "as the sale", hint: "The pool of units.", spellcheck: false })}</div>
        <div class="triple">${input("total_units", "Units", { inputmode: "numeric" })}${input("amount", "Price of one", { inputmode: "decimal" })}
          ${input("currency", "Currency", { maxlength: 3 })}</div>
        ${input("description", "Description")}${input("image_url", "Address of a picture", { placeholder: "https://…" })}
      </fieldset>
      <fieldset class="card"><legend>When, and for whom</legend>
        <div class="dates">${input("starts_at", "Starts (your time)", { type: "datetime-local" })}${input("ends_at", "Ends", { type: "datetime-local", hint: "Empty: when you close it." })}</div>
        <div class="pair">${input("per_buyer_limit", "Units per buyer", { inputmode: "numeric", hint: "Empty: any number." })}
          ${input("hold_minutes", "Minutes in the cart", { inputmode: "decimal", hint: "30 at most." })}</div>
        <div class="pair">${choice("checkout", "Checkout", [["cart", "Hold, then pay"], ["instant", "Pay at once"]])}
          ${choice("payment", "Payment", [["wallet", "Wallet"], ["sandbox", "Sandbox"], ["stripe", "Stripe"], ["external", "External: you confirm"]])}</div>
      </fieldset>
      <fieldset class="card"><legend>Getting in</legend>
        ${choice("mode", "Waiting room", [["fifo", "First come, first served"], ["lottery", "Lottery among those there at the start"], ["off", "None"]])}
        ${hasRoom && html`<div class="pair">${input("rate_per_second", "People per second", { inputmode: "numeric", hint: "The most; slower by itself when it must be." })}
          ${input("pass_minutes", "Minutes to buy", { inputmode: "decimal", hint: "Once it is their turn." })}</div>
          ${input("cost", "Proof of work", { inputmode: "numeric", placeholder: "none", hint: "Attempts it costs to join, such as 200; empty: none." })}`}
      </fieldset>
      ${general && html`<p class="wrong" role="alert">${general}</p>`}
      <div class="actions"><a class="button plain" href="#/sales">Cancel</a><button class="button main" disabled=${busy}>Create the sale</button></div>
    </form>`;
}

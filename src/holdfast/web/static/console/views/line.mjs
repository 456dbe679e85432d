// The line: how it moves, why, and what an operator can do about it.
import { may, post } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { ask, attempt, Field } from "../parts.mjs";
import { milliseconds, number, PACING, plural, rate, seconds, share } from "../words.mjs";

export function LinePanel({ sale, room, onChange }) {
  const change = async (given, done) => {
    await attempt(() => post(`/v1/sales/${encodeURIComponent(sale.sale_id)}/room`, given), done);
    await onChange();
  };
  return html`<section class="card panel"><h2>Line</h2>
    <p class="why why-${room.why}">${PACING[room.why]}</p>
    <${Facts} room=${room} />
    ${may("sales") && sale.state !== "closed" && html`<${Rate} room=${room} change=${change} /><${LetIn} change=${change} />
      <button class="button wide" onClick=${() => change({ paused: !room.paused }, room.paused ? "The line goes on." : "The line is paused: nobody is called.")}>
        ${room.paused ? "Call people again" : "Pause the line"}</button>`}
  </section>`;
}

function Facts({ room }) {
  const pace = room.pace;
  const facts = [
    ["Calling", pace ? `${rate(pace.speed_per_second)} of ${rate(pace.rate_per_second)} per second` : "–"],
    ["Target", `${number(room.rate_per_second)} per second`],
    ["Served", `${number(room.serving)} of ${number(room.joined)}`],
    ["Inside", `${number(room.called)} called, ${plural(room.passes, "pass", "passes")}`],
    pace && ["Come, buy", `${share(pace.shows, 1)}, ${share(pace.buys, 1)}`],
    pace && ["Gate, payments", `${milliseconds(pace.gate_latency_ms)}, ${seconds(pace.settlement_lag_ms / 1000)}`],
    room.letting_in > 0 && ["To let in by hand", number(room.letting_in)],
  ].filter(Boolean);
  return html`<table class="figures"><tbody>${facts.map(([label, value]) => html`<tr key=${label}><th scope="row">${label}</th><td>${value}</td></tr>`)}</tbody></table>`;
}

function Rate({ room, change }) {
  const [given, setGiven] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const target = Number(given);
    if (given === "" || !Number.isInteger(target)) return;
    await change({ rate_per_second: target }, `The target is ${number(target)} people per second.`);
    setGiven("");
  };
  return html`<form class="inline" onSubmit=${submit}>
    <${Field} name="rate" label="People per second" inputmode="numeric" placeholder=${String(room.rate_per_second)} value=${given} onInput=${(event) => setGiven(event.target.value)} />
    <button class="button">Set rate</button>
  </form>`;
}

function LetIn({ change }) {
  const [given, setGiven] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const people = Number(given);
    if (!Number.isInteger(people) || people < 1) return;
    const goesOn = await ask({
      title: `Let ${plural(people, "person", "people")} in?`, action: "Let them in",
      text: "They are called at once, beside the pace, as far as there is stock. It cannot be taken back.",
    });
    if (!goesOn) return;
    await change({ let_in: people }, `${plural(people, "person is", "people are")} let in as far as there is stock.`);
    setGiven("");
  };
  return html`<form class="inline" onSubmit=${submit}>
    <${Field} name="let-in" label="Let people in now" inputmode="numeric" placeholder="10" value=${given} onInput=${(event) => setGiven(event.target.value)} />
    <button class="button">Let in</button>
  </form>`;
}

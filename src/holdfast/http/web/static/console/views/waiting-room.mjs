// The waiting room: admission rate, what limits it, and the operator's controls.
import { may, post } from "../api.mjs";
import { attempt, confirmDialog, Field } from "../components.mjs";
import { milliseconds, number, PACING, plural, rate, seconds, share } from "../format.mjs";
import { html, useState } from "../html.mjs";
import * as paths from "../../paths.mjs";

export function WaitingRoomPanel({ sale, room, onChange }) {
  const change = async (values, done) => {
    await attempt(() => post(paths.changeRoom(sale.sale_id), values), done);
    await onChange();
  };
  const why = ["sold_out", "ended"].includes(sale.phase) ? sale.phase : room.why;
  return html`<section class="card panel"><h2>Waiting room</h2>
    <p class="pacing pacing-${why}">${PACING[why]}</p>
    <${Facts} room=${room} />
    ${may("sales") && sale.state !== "closed" && html`<${Rate} room=${room} change=${change} /><${Admit} change=${change} />
      <button class="button wide" onClick=${() => change({ paused: !room.paused }, room.paused ? "Admissions resumed." : "Admissions paused.")}>
        ${room.paused ? "Resume admissions" : "Pause admissions"}</button>`}
  </section>`;
}

function Facts({ room }) {
  const pace = room.pace;
  const facts = [
    ["Admitting", pace ? `${rate(pace.speed_per_second)} of ${rate(pace.rate_per_second)}/s` : "–"],
    ["Target", `${number(room.rate_per_second)}/s`],
    ["Admitted", `${number(room.serving)} of ${number(room.joined)}`],
    ["Active", `${number(room.called)} called, ${plural(room.passes, "pass", "passes")}`],
    pace && ["Show-up rate", share(pace.shows, 1)],
    pace && ["Conversion", share(pace.buys, 1)],
    pace && ["Reservation latency", milliseconds(pace.gate_latency_ms)],
    pace && ["Payment delay", seconds(pace.settlement_lag_ms / 1000)],
    room.admitting > 0 && ["Manual admissions pending", number(room.admitting)],
  ].filter(Boolean);
  return html`<table class="figures"><tbody>${facts.map(([label, value]) => html`<tr key=${label}><th scope="row">${label}</th><td>${value}</td></tr>`)}</tbody></table>`;
}

function Rate({ room, change }) {
  const [text, setText] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const target = Number(text);
    if (text === "" || !Number.isInteger(target)) return;
    await change({ rate_per_second: target }, `Target set to ${number(target)} people per second.`);
    setText("");
  };
  return html`<form class="inline" onSubmit=${submit}>
    <${Field} name="rate" label="People per second" inputmode="numeric" placeholder=${String(room.rate_per_second)} value=${text} onInput=${(event) => setText(event.target.value)} />
    <button class="button">Set rate</button>
  </form>`;
}

function Admit({ change }) {
  const [text, setText] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const people = Number(text);
    if (!Number.isInteger(people) || people < 1) return;
    const confirmed = await confirmDialog({
      title: `Admit ${plural(people, "person", "people")}?`, action: "Admit",
      text: "They are admitted right away, on top of the target rate, as far as stock allows. This cannot be undone.",
    });
    if (!confirmed) return;
    await change({ admit: people }, `Admitting ${plural(people, "person", "people")}, as far as stock allows.`);
    setText("");
  };
  return html`<form class="inline" onSubmit=${submit}>
    <${Field} name="admit" label="Admit people now" inputmode="numeric" placeholder="10" value=${text} onInput=${(event) => setText(event.target.value)} />
    <button class="button">Admit</button>
  </form>`;
}

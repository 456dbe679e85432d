// The sliders, and the button that starts a run.

import { html, useState } from "../console/html.mjs";
import { count, isRunning } from "./format.mjs";

function Slider({ name, label, unit = "", value, onChange, disabled, ...limits }) {
  const id = `slider-${name}`;
  return html`
    <div class="slider">
      <label for=${id}>${label}</label>
      <output for=${id} class="figures">${count(value)}${unit}</output>
      <input id=${id} type="range" value=${value} disabled=${disabled} ...${limits}
        aria-valuetext="${count(value)}${unit}"
        onInput=${(event) => onChange(Number(event.target.value))} />
    </div>`;
}

function Engine({ value, label, about, chosen, onChange, disabled }) {
  return html`
    <label class="engine">
      <input type="radio" name="engine" value=${value} checked=${chosen === value} disabled=${disabled}
        onChange=${() => onChange(value)} />
      <span><strong>${label}</strong> <small>${about}</small></span>
    </label>`;
}

export function Controls({ setup, snapshot, order }) {
  const [options, setOptions] = useState({
    users: snapshot.options.users,
    units: snapshot.options.units,
    seconds: snapshot.options.seconds,
    engine: snapshot.options.engine,
  });
  const running = isRunning(snapshot);
  const set = (name) => (value) => setOptions((was) => ({ ...was, [name]: value }));
  const start = (event) => {
    event.preventDefault();
    order("POST", "/simulation/runs", options);
  };
  const slider = (name) => ({ name, value: options[name], onChange: set(name), disabled: running });
  const noRedis = "not installed here: pip install 'holdfast[bench]'";
  return html`
    <form class="card controls" onSubmit=${start} aria-label="The run">
      <h2>The crowd</h2>
      <${Slider} ...${slider("users")} label="Buyers" min="50" max="5000" step="50" />
      <${Slider} ...${slider("units")} label="Units" min="10" max="2000" step="10" />
      <${Slider} ...${slider("seconds")} label="All arrive within" unit=" s" min="2" max="60" step="1" />
      <fieldset>
        <legend>Holdfast runs on</legend>
        <${Engine} value="sqlite" label="SQLite" about="one file decides and remembers"
          chosen=${options.engine} onChange=${set("engine")} disabled=${running} />
        <${Engine} value="redis" label="Redis + PostgreSQL"
          about=${setup.has_postgres ? "Redis decides, PostgreSQL remembers" : noRedis}
          chosen=${options.engine} onChange=${set("engine")} disabled=${running || !setup.has_postgres} />
      </fieldset>
      ${running
        ? html`<button key="stop" type="button" class="button" onClick=${() => order("DELETE", "/simulation/runs")}>Stop</button>`
        : html`<button key="start" type="submit" class="button main">${snapshot.run > 0 ? "Start again" : "Start"}</button>`}
    </form>`;
}

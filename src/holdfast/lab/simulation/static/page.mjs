// The simulation page: sends commands, and renders each frame from the server.

import { html, render, useEffect, useState } from "../console/html.mjs";
import { Chart } from "./chart.mjs";
import { Controls } from "./controls.mjs";
import { FaultLog, Faults } from "./faults.mjs";
import { isRunning, PHASES, seconds } from "./format.mjs";
import { Shops } from "./shops.mjs";
import { Stages } from "./stages.mjs";
import { Verdict } from "./verdict.mjs";

/** The latest frame from the server. */
function useFrames() {
  const [state, setState] = useState({ frame: null, isLost: false });
  useEffect(() => {
    const events = new EventSource("/simulation/events");
    events.onmessage = (event) => setState({ frame: JSON.parse(event.data), isLost: false });
    // EventSource reconnects automatically; the server ends each stream after about a minute.
    events.onerror = () => setState((was) => ({ ...was, isLost: true }));
    events.onopen = () => setState((was) => ({ ...was, isLost: false }));
    return () => events.close();
  }, []);
  return state;
}

async function send(method, path, body) {
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  return response.ok ? "" : (await response.json()).detail;
}

function Page() {
  const { frame, isLost } = useFrames();
  const [problem, setProblem] = useState("");
  const order = (...given) =>
    send(...given).then(setProblem, () => setProblem("The simulation does not answer. Is holdfast demo still running?"));
  if (frame === null) return html`<p class="waiting" role="status">Connecting…</p>`;
  const { setup, snapshot } = frame;
  return html`
    <header class="top">
      <span class="brand"><img src="/assets/holdfast.svg" alt="" width="28" height="28" /> Holdfast</span>
      ${setup.demo_url && html`<nav><a href=${setup.demo_url}>Demo sale</a><a href="${setup.demo_url}/console">Console</a></nav>`}
    </header>
    <main>
      <div class="intro">
        <h1>Break the sale. Then count.</h1>
        <p>
          A crowd buys from a real Holdfast server, started for this run on this machine. Four simpler shops sell the
          same units to the same buyers. Cause faults while they buy, and see who sells more than there is.
        </p>
      </div>
      <div class="desk">
        <${Controls} key="controls" setup=${setup} snapshot=${snapshot} order=${order} />
        <${Faults} setup=${setup} snapshot=${snapshot} order=${order} />
      </div>
      <p class="problem" role="alert" hidden=${!problem}>${problem}</p>
      <p class="phase" role="status" data-phase=${snapshot.phase}>
        <span class="dot ${isRunning(snapshot) ? "live" : ""}"></span>
        <strong>${PHASES[snapshot.phase]}</strong>
        ${snapshot.run > 0 && html`<span class="quiet figures">${seconds(snapshot.elapsed_s)}</span>`}
        ${snapshot.message && html`<span>${snapshot.message}</span>`}
        ${isLost && html`<span class="tag warn">Connection lost; reconnecting…</span>`}
      </p>
      <${Stages} snapshot=${snapshot} />
      <${Verdict} snapshot=${snapshot} />
      <${Shops} setup=${setup} snapshot=${snapshot} />
      <div class="history">
        <${Chart} snapshot=${snapshot} />
        <${FaultLog} snapshot=${snapshot} />
      </div>
    </main>`;
}

render(html`<${Page} />`, document.getElementById("page"));

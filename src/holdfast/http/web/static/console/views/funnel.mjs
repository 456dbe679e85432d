// Where people dropped off, from the click stream. Not shown where there is none.
import { get } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { useEvery } from "../store.mjs";
import { number, OUTCOMES } from "../format.mjs";
import * as paths from "../../paths.mjs";

const POLL_MS = 10000;
const STEPS = { view: "Viewed", join: "Joined the line", pass: "Got a pass", attempt: "Tried to buy", pay: "Started to pay" };

export function FunnelPanel({ id }) {
  const [funnel, setFunnel] = useState(null);
  useEvery(POLL_MS, async () => {
    try {
      setFunnel(await get(paths.getFunnel(id)));
    } catch {
      // Keep the last one.
    }
  }, [id]);
  if (!funnel || !funnel.enabled) return null;
  const steps = funnel.steps.filter((step) => step.clicks);
  return html`<section class="card panel" id="funnel"><h2>Where people dropped off</h2>
    ${steps.length ? html`<table class="figures"><thead><tr><th scope="col">Step</th><th scope="col">Reached</th><th scope="col">Stopped here</th></tr></thead><tbody>
      ${steps.map((step) => html`<tr key=${step.step}><th scope="row">${STEPS[step.step]}</th><td>${number(step.people)}</td><td>${number(step.stopped)}</td></tr>`)}</tbody></table>`
    : html`<p class="quiet">No clicks yet.</p>`}
    ${funnel.refusals.length > 0 && html`<table class="figures"><caption>Refused</caption><tbody>
      ${funnel.refusals.map((one) => html`<tr key=${one.step + one.reason}><th scope="row">${STEPS[one.step] || one.step}: ${OUTCOMES[one.reason] || one.reason.replaceAll("_", " ")}</th><td>${number(one.clicks)}</td></tr>`)}</tbody></table>`}
  </section>`;
}

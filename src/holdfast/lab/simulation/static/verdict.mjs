// The result of `holdfast verify` on the run's ledger.

import { html } from "../console/html.mjs";
import { count, plural } from "./format.mjs";

export function Verdict({ snapshot }) {
  const { verdict, ledger, options, clicks, run } = snapshot;
  if (!verdict) return null;
  const unsold = Math.min(options.units, options.users) - ledger.orders;
  return html`
    <section class="verdict card ${verdict.ok ? "good" : "bad"}" aria-labelledby="verdict-title" data-verdict=${verdict.ok ? "ok" : "failed"}>
      <h2 id="verdict-title">${verdict.ok ? "Verified: nothing went wrong" : "holdfast verify found something"}</h2>
      <p>
        Holdfast sold <strong>${plural(ledger.orders, "unit", "units")}</strong> of ${count(options.units)}
        ${unsold === 0 ? " and left none behind" : `; ${plural(unsold, "unit is", "units are")} left`}.
        ${` ${plural(clicks.reserved, "buyer was", "buyers were")} told yes`}${clicks.reserved === ledger.orders ? ", and each has one paid order." : "."}
        ${clicks.gave_up > 0 && ` ${plural(clicks.gave_up, "click", "clicks")} had no answer within a minute.`}
      </p>
      <details>
        <summary>holdfast verify: ${count(verdict.passed.length)} checks passed, ${count(verdict.failed.length)} failed</summary>
        <ul class="checks">
          ${verdict.failed.map((name) => html`<li class="failed">${name}</li>`)}
          ${verdict.passed.map((name) => html`<li>${name}</li>`)}
        </ul>
        <p class="quiet">Run ${run}: read from the ledger and compared with the payment provider's records, after the server had stopped.</p>
      </details>
    </section>`;
}

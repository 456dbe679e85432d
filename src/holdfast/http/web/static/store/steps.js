/** "How it works": the steps of a purchase, and the current one. */
import { html } from "./html.js";

const STEP_OF_STATE = {
  proving: "line", waiting: "line", admitted: "turn", reserving: "turn", hoping: "turn", cart: "cart", paying: "cart",
};

/** States in which there is nothing left to explain. */
const HIDDEN = new Set(["confirmed", "declined", "refused", "sold_out", "ended"]);

export function Steps({ t, name, sale, now, target, mine }) {
  if (sale === null || HIDDEN.has(name) || HIDDEN.has(now?.state) || mine?.orders.length > 0) return null;
  const hasLine = sale.room.mode !== "off";
  const all = hasLine ? ["line", "turn", "cart", "yours"] : ["cart", "yours"];
  const steps = target ? ["line", "back"] : all;
  const current = steps.indexOf(target && name === "admitted" ? "back" : STEP_OF_STATE[name]);
  return html`
    <section class="steps" aria-labelledby="steps-title">
      <h2 id="steps-title">${t.steps.label}</h2>
      <ol>
        ${steps.map((step, index) => {
          const isDone = index < current;
          const isCurrent = index === current;
          return html`
            <li class=${isDone ? "done" : isCurrent ? "current" : ""} aria-current=${isCurrent ? "step" : undefined}>
              <h3>${t.steps[step][0]} ${isDone && html`<span class="visually-hidden">(${t.steps.done})</span>`}</h3>
              ${(current < 0 || isCurrent) && html`<p>${t.steps[step][1]}</p>`}
            </li>
          `;
        })}
      </ol>
    </section>
  `;
}

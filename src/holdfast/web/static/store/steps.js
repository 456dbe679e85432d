/** How it goes, and how far one is. */
import { html } from "./html.js";

const AT = {
  proving: "line", waiting: "line", admitted: "turn", reserving: "turn", hoping: "turn", cart: "cart", paying: "cart",
};

/** Where it did not go on as planned, or is done, there is nothing left to explain. */
const OVER = new Set(["confirmed", "declined", "refused", "sold_out", "ended"]);

export function Steps({ t, name, sale, now }) {
  if (sale === null || OVER.has(name) || OVER.has(now?.state)) return null;
  const hasLine = sale.room.mode !== "off";
  const steps = hasLine ? ["line", "turn", "cart", "yours"] : ["cart", "yours"];
  const current = steps.indexOf(AT[name]);
  return html`
    <section class="steps" aria-labelledby="steps-title">
      <h2 id="steps-title">${t.steps.label}</h2>
      <ol>
        ${steps.map((step, index) => {
          const isDone = index < current;
          const isCurrent = index === current;
          return html`
            <li class=${isDone ? "done" : isCurrent ? "current" : ""} aria-current=${isCurrent ? "step" : undefined}>
              <h3>${t.steps[step][0]} ${isDone && html`<span class="unseen">(${t.steps.done})</span>`}</h3>
              ${(current < 0 || isCurrent) && html`<p>${t.steps[step][1]}</p>`}
            </li>
          `;
        })}
      </ol>
    </section>
  `;
}

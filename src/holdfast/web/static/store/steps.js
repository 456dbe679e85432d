/** How it goes, and how far one is. */
import { html } from "./html.js";

const AT = {
  proving: "line", waiting: "line", admitted: "turn", reserving: "turn", hoping: "turn", cart: "cart", paying: "cart",
  confirmed: "yours",
};

export function Steps({ t, name, sale }) {
  if (sale === null) return null;
  const hasLine = sale.room.mode !== "off";
  const steps = ["line", "turn", "cart", "yours"].filter((step) => hasLine || step !== "line");
  const current = steps.indexOf(AT[name]);
  const isOver = name === "confirmed";
  return html`
    <section class="steps" aria-labelledby="steps-title">
      <h2 id="steps-title">${t.steps.label}</h2>
      <ol>
        ${steps.map((step, index) => {
          const isDone = index < current || isOver;
          const isCurrent = index === current && !isOver;
          return html`
            <li class=${isDone ? "done" : isCurrent ? "current" : ""} aria-current=${isCurrent ? "step" : undefined}>
              <h3>${t.steps[step][0]} ${isDone && html`<span class="unseen">(${t.steps.done})</span>`}</h3>
              <p>${t.steps[step][1]}</p>
            </li>
          `;
        })}
      </ol>
    </section>
  `;
}

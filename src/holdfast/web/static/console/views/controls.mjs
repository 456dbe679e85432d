// What an operator can do to a sale. Whatever could hurt is asked twice.
import { postOnce } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { ask, attempt, Field } from "../parts.mjs";
import { number, plural } from "../words.mjs";

export function Controls({ live, onChange }) {
  const { sale, stock } = live;
  const path = `/v1/sales/${encodeURIComponent(sale.sale_id)}`;
  const isOver = sale.state === "closed";
  const act = async (what, question, done, body) => {
    if (question && !(await ask(question))) return;
    await attempt(() => postOnce(`${path}/${what}`, body), done);
    await onChange();
  };
  const pause = () => act("pause", {
    title: "Pause the sale?", text: "Nobody can reserve until you go on. What is in carts can still be paid for.", action: "Pause", harmful: true,
  }, "The sale is paused.");
  const close = () => act("close", {
    title: "Close the sale for good?", action: "Close the sale", harmful: true, typed: sale.sale_id,
    text: `It cannot be opened again. ${stock ? `Left unsold: ${plural(stock.available, "unit")}. ` : ""}What is in carts can be paid for until its time is over.`,
  }, "The sale is closed.");
  if (isOver) return html`<section class="card panel"><h2>Closed</h2><p class="quiet">This sale has ended for good.</p></section>`;
  return html`<section class="card panel"><h2>Sale</h2>
    ${sale.paused
      ? html`<button class="button main wide" onClick=${() => act("resume", null, "The sale goes on.")}>Resume selling</button>`
      : html`<button class="button wide" onClick=${pause}>Pause selling</button>`}
    <${Restock} act=${act} stock=${stock} />
    <button class="button harmful-outline wide" onClick=${close}>Close for good…</button>
  </section>`;
}

function Restock({ act, stock }) {
  const [units, setUnits] = useState("");
  const count = Number(units);
  const submit = async (event) => {
    event.preventDefault();
    if (!Number.isInteger(count) || count === 0) return;
    const takes = count < 0;
    await act("restock", {
      title: takes ? `Take ${plural(-count, "unit")} away?` : `Add ${plural(count, "unit")}?`, action: takes ? "Take away" : "Add", harmful: takes,
      text: stock ? `There will be ${number(stock.total + count)} units in all.` : "",
    }, takes ? `${plural(-count, "unit")} taken away.` : `${plural(count, "unit")} added.`, { units: count });
    setUnits("");
  };
  return html`<form class="inline" onSubmit=${submit}>
    <${Field} name="units" label="Add units" inputmode="numeric" placeholder="100" value=${units} onInput=${(event) => setUnits(event.target.value)} />
    <button class="button">Restock</button>
  </form>`;
}

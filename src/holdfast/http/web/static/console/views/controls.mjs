// Pause, restock and close a sale.
import { postOnce } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { confirmDialog, attempt, Field } from "../components.mjs";
import { plural } from "../format.mjs";
import * as paths from "../../paths.mjs";

export function Controls({ live, onChange }) {
  const { sale, stock } = live;
  const isClosed = sale.state === "closed";
  const act = async (path, dialog, done, body) => {
    if (dialog && !(await confirmDialog(dialog))) return;
    await attempt(() => postOnce(path(sale.sale_id), body), done);
    await onChange();
  };
  const pause = () => act(paths.pauseSale, {
    title: "Pause the sale?", text: "Nobody can reserve until you resume it. Carts can still be paid for.", action: "Pause", danger: true,
  }, "Sale paused.");
  const close = () => act(paths.closeSale, {
    title: "Close the sale permanently?", action: "Close sale", danger: true, typed: sale.sale_id,
    text: `It cannot be reopened. ${stock ? `Unsold: ${plural(stock.available, "unit")}. ` : ""}Carts can still be paid for until they expire.`,
  }, "Sale closed.");
  if (isClosed) return html`<section class="card panel"><h2>Sale closed</h2><p class="quiet">It cannot be reopened.</p></section>`;
  return html`<section class="card panel"><h2>Sale</h2>
    ${sale.paused
      ? html`<button class="button main wide" onClick=${() => act(paths.resumeSale, null, "Sale resumed.")}>Resume sale</button>`
      : html`<button class="button wide" onClick=${pause}>Pause sale</button>`}
    <${Restock} act=${act} stock=${stock} />
    <button class="button danger-outline wide" onClick=${close}>Close sale…</button>
  </section>`;
}

function Restock({ act, stock }) {
  const [units, setUnits] = useState("");
  const count = Number(units);
  const submit = async (event) => {
    event.preventDefault();
    if (!Number.isInteger(count) || count === 0) return;
    const isRemoval = count < 0;
    await act(paths.restockSale, {
      title: isRemoval ? `Remove ${plural(-count, "unit")}?` : `Add ${plural(count, "unit")}?`, action: isRemoval ? "Remove" : "Add", danger: isRemoval,
      text: stock ? `The new total is ${plural(stock.total + count, "unit")}.` : "",
    }, isRemoval ? `${plural(-count, "unit")} removed.` : `${plural(count, "unit")} added.`, { units: count });
    setUnits("");
  };
  return html`<form class="inline" onSubmit=${submit}>
    <${Field} name="units" label="Add units" inputmode="numeric" placeholder="100 or -20" value=${units} onInput=${(event) => setUnits(event.target.value)} />
    <button class="button">Restock</button>
  </form>`;
}

import { get, post } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { ask, attempt, Empty, Heading, Tag } from "../parts.mjs";
import { useEvery } from "../store.mjs";
import { moment, number } from "../words.mjs";

const KINDS = { settlement: "Payment", refund: "Refund", delivery: "Webhook delivery" };

export function ParkedView() {
  const [items, setItems] = useState(null);
  const look = async () => setItems((await get("/v1/ops/parked").catch(() => ({ data: items }))).data);
  useEvery(3000, look);
  const act = async (item, what, done) => {
    await attempt(() => post(`/v1/ops/parked/${encodeURIComponent(item.parked_id)}/${what}`), done);
    await look();
  };
  const drop = async (item) => {
    const goesOn = await ask({
      title: "Give it up?", action: "Drop it", harmful: true,
      text: item.kind === "delivery" ? "This event is never sent to its receiver, unless you replay it." : "It is dropped only if it is sure that no money is out; units that were held for it are for sale again.",
    });
    if (goesOn) await act(item, "drop", "Dropped.");
  };
  return html`<${Heading} title="Parked"><//>
    <p class="quiet lead">What was tried often enough and waits for a person. Trying again is always safe.</p>
    ${items?.length === 0 && html`<${Empty}>Nothing waits for you.<//>`}
    <ul class="stack">${(items || []).map((item) => html`<li key=${item.parked_id} class="card parked">
      <div class="parked-head"><${Tag} kind="warn">${KINDS[item.kind] || item.kind}<//><h2 class="code">${item.parked_id.replace(/^[a-z]+:/, "")}</h2>
        <div class="actions"><button class="button small" onClick=${() => act(item, "retry", "It is tried again.")}>Try again</button>
          <button class="button small harmful-outline" onClick=${() => drop(item)}>Drop…</button></div></div>
      <p class="reason">${item.reason || "No reason was noted"}</p>
      <p class="quiet">${number(item.attempts)} attempts, since ${moment(item.created_at)}</p>
      ${item.history.length > 0 && html`<details><summary>What happened</summary><ol class="trail">${item.history.map((tried, index) =>
        html`<li key=${index}><time>${moment(tried.at)}</time> <span class="code">${tried.step ?? tried.status ?? ""}</span> ${tried.error}</li>`)}</ol></details>`}
    </li>`)}</ul>`;
}

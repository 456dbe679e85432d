import { get, post } from "../api.mjs";
import { attempt, confirmDialog, Empty, Heading, Tag } from "../components.mjs";
import { dateTime, plural } from "../format.mjs";
import { html, useState } from "../html.mjs";
import { useEvery } from "../store.mjs";
import * as paths from "../../paths.mjs";

const KINDS = { settlement: "Payment", refund: "Refund", delivery: "Webhook delivery" };
const DROP_TEXT = {
  delivery: "This event will not be delivered unless you replay it.",
  other: "It is dropped only if no money was taken. Units reserved for it go back on sale.",
};

export function AttentionView() {
  const [items, setItems] = useState(null);
  const refresh = async () => setItems((await get(paths.listParked()).catch(() => ({ data: items }))).data);
  useEvery(3000, refresh);
  const act = async (item, path, done) => {
    await attempt(() => post(path(item.parked_id)), done);
    await refresh();
  };
  const drop = async (item) => {
    const confirmed = await confirmDialog({
      title: "Drop this item?", text: DROP_TEXT[item.kind] ?? DROP_TEXT.other, action: "Drop", danger: true,
    });
    if (confirmed) await act(item, paths.dropParked, "Dropped.");
  };
  return html`<${Heading} title="Needs attention"><//>
    <p class="quiet lead">Operations that failed repeatedly and need a decision. Retrying is always safe.</p>
    ${items?.length === 0 && html`<${Empty}>Nothing needs attention.<//>`}
    <ul class="stack">${(items || []).map((item) => html`<li key=${item.parked_id} class="card attention">
      <div class="attention-head"><${Tag} kind="warn">${KINDS[item.kind] || item.kind}<//><h2 class="code">${item.parked_id.replace(/^[a-z]+:/, "")}</h2>
        <div class="actions"><button class="button small" onClick=${() => act(item, paths.retryParked, "Queued for retry.")}>Retry</button>
          <button class="button small danger-outline" onClick=${() => drop(item)}>Drop…</button></div></div>
      <p class="reason">${item.reason || "No reason recorded"}</p>
      <p class="quiet">${plural(item.attempts, "attempt")} since ${dateTime(item.created_at)}</p>
      ${item.history.length > 0 && html`<details><summary>History</summary><ol class="trail">${item.history.map((tried, index) =>
        html`<li key=${index}><time>${dateTime(tried.at)}</time> <span class="code">${tried.step ?? tried.status ?? ""}</span> ${tried.error}</li>`)}</ol></details>`}
    </li>`)}</ul>`;
}

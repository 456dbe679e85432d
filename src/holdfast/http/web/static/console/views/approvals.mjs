import { get, post, session } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { attempt, confirmDialog, showNotice, Tag } from "../components.mjs";
import { useEvery, useStore } from "../store.mjs";
import { dateTime } from "../format.mjs";
import * as paths from "../../paths.mjs";

/** What waits for a second operator. */
export function Approvals() {
  const signedIn = useStore(session);
  const [pending, setPending] = useState([]);
  const refresh = async () => setPending((await get(`${paths.listApprovals()}?state=pending`).catch(() => ({ data: pending }))).data);
  useEvery(5000, refresh);
  const approve = async (one) => {
    const when = isNobodys(one) && !one.decided_by ? "Another operator, if there is one, has to approve it, too. Then it is carried out" : "It is carried out at once";
    const text = `${one.requested_by} asked for it. ${when} and cannot be undone.`;
    const confirmed = await confirmDialog({ title: `Approve: ${named(one)}?`, text, action: "Approve", danger: true });
    if (confirmed) await attempt(async () => showNotice(outcome(await post(paths.approveRequest(one.approval_id)))));
    await refresh();
  };
  const reject = async (one) => {
    await attempt(() => post(paths.rejectRequest(one.approval_id)), isOwn(one, signedIn) ? "Withdrawn." : "Rejected.");
    await refresh();
  };
  if (pending.length === 0) return null;
  return html`<h2>Waiting for approval</h2>
    <ul class="stack">${pending.map((one) => html`<li key=${one.approval_id} class="card row">
      <div><h3>${one.action.replaceAll("_", " ")} ${one.subject && html`<span class="code">${one.subject}</span>`}</h3>
        <p class="quiet">${one.requested_by} · ${dateTime(one.requested_at)} · expires ${dateTime(one.expires_at)}</p>
        ${one.decided_by && html`<p>Approved by ${one.decided_by}. Another operator has to approve it, too.</p>`}
        ${one.request && html`<p class="code">${JSON.stringify(one.request)}</p>`}</div>
      <div class="row">${isOwn(one, signedIn)
        ? html`<${Tag}>Yours: another operator decides<//><button class="button small" onClick=${() => reject(one)}>Withdraw<span class="visually-hidden"> ${named(one)}</span></button>`
        : html`<button class="button small" onClick=${() => reject(one)}>Reject<span class="visually-hidden"> ${named(one)}</span></button>
          <button class="button small danger-outline" onClick=${() => approve(one)}>Approve…<span class="visually-hidden"> ${named(one)}</span></button>`}</div></li>`)}</ul>`;
}

const named = (one) => `${one.action.replaceAll("_", " ")} ${one.subject || ""}`.trim();
const isOwn = (one, signedIn) => one.requested_by_id !== null && one.requested_by_id === signedIn.operator_id;

/** Asked for by a key that no operator made: two have to approve it. */
const isNobodys = (one) => one.requested_by_id === null;

function outcome(one) {
  if (one.status >= 400) throw new Error(`Approved, but it was refused: ${one.reason}.`);
  return one.state === "pending" ? "Approved. Another operator has to approve it, too." : "Approved and carried out.";
}

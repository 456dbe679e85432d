import { get } from "../api.mjs";
import { html, useEffect, useState } from "../html.mjs";
import { Empty, Heading, Tag } from "../components.mjs";
import { dateTime } from "../format.mjs";
import * as paths from "../../paths.mjs";

/** The record of what operators did, newest first. */
export function ActionsView() {
  const [page, setPage] = useState(null);
  const load = async (after) => {
    const query = after ? `?starting_after=${after}` : "";
    const found = await get(paths.listActions() + query).catch(() => ({ data: [], has_more: false }));
    setPage((before) => ({ data: [...((after && before?.data) || []), ...found.data], has_more: found.has_more }));
  };
  useEffect(() => void load(), []);
  return html`<${Heading} title="What was done"><a class="button" href="#/team">Team</a><//>
    <p class="quiet lead">Every change by an operator or an operator's key. Nothing here can be changed or removed.</p>
    ${page?.data.length === 0 && html`<${Empty}>Nothing yet.<//>`}
    <ul class="stack">${(page?.data || []).map((one) => html`<${Action} key=${one.action_id} one=${one} />`)}</ul>
    ${page?.has_more && html`<button class="button" onClick=${() => load(page.data.at(-1).action_id)}>Show more</button>`}`;
}

function Action({ one }) {
  const changes = changesOf(one.before || {}, one.after || {});
  return html`<li class="card"><div class="row"><div><h2>${one.action.replaceAll("_", " ")} ${one.subject && html`<span class="code">${one.subject}</span>`}</h2>
    <p class="quiet">${one.operator} · ${dateTime(one.at)}</p></div><${Outcome} one=${one} /></div>
    ${changes.length > 0 && html`<details><summary>${changes.length} ${changes.length === 1 ? "change" : "changes"}</summary><table class="changes"><tbody>
      ${changes.map(([name, before, after]) => html`<tr key=${name}><th scope="row">${name}</th><td class="code">${shown(before)}</td><td class="code">→ ${shown(after)}</td></tr>`)}</tbody></table></details>`}</li>`;
}

function Outcome({ one }) {
  if (one.status === null) return html`<${Tag} kind="warn">Interrupted<//>`;
  return one.reason ? html`<${Tag} kind="bad">${one.reason}<//>` : html`<${Tag} kind="good">Done<//>`;
}

function changesOf(before, after) {
  const tables = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return tables.flatMap((table) => {
    const was = before[table] || {};
    const is = after[table] || {};
    const columns = [...new Set([...Object.keys(was), ...Object.keys(is)])];
    return columns.filter((column) => JSON.stringify(was[column]) !== JSON.stringify(is[column])).map((column) => [`${table}.${column}`, was[column], is[column]]);
  });
}

const shown = (value) => (value === undefined || value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value));

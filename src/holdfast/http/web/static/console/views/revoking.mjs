// On a buyer's page: refuse their tokens, or accept them again.
import { call, get, may, remove } from "../api.mjs";
import { html, useEffect, useState } from "../html.mjs";
import { attempt, confirmDialog, Tag } from "../components.mjs";
import { dateTime } from "../format.mjs";
import * as paths from "../../paths.mjs";

export function Revoking({ id }) {
  // Undefined until it is known; null: not revoked.
  const [revoked, setRevoked] = useState(undefined);
  const refresh = async () => {
    const listed = await get(paths.listRevocations()).catch(() => null);
    if (listed) setRevoked(listed.data.find((one) => one.kind === "buyer" && one.id === id) ?? null);
  };
  useEffect(() => {
    setRevoked(undefined);
    refresh();
  }, [id]);
  const revoke = async () => {
    const confirmed = await confirmDialog({ title: `Refuse the tokens of ${id}?`, text: "Every request of this buyer is refused for 30 days, also with new tokens. Holds and orders stay as they are.", action: "Refuse tokens", danger: true });
    if (confirmed) await attempt(() => call("PUT", paths.revokeBuyer(id), {}), "The buyer's tokens are refused.");
    await refresh();
  };
  const restore = async () => {
    await attempt(() => remove(paths.restoreBuyer(id)), "The buyer's tokens are accepted again.");
    await refresh();
  };
  if (revoked === undefined) return null;
  return html`<p class="actions">${revoked && html`<${Tag} kind="bad">Tokens refused until ${dateTime(revoked.expires_at)}<//>${revoked.reason && html` <span class="quiet">${revoked.reason}</span>`}`}
    ${may("operate") && (revoked ? html`<button class="button small" onClick=${restore}>Accept tokens again</button>` : html`<button class="button small danger-outline" onClick=${revoke}>Refuse tokens…</button>`)}</p>`;
}

// Entry point: session, routing and navigation.
import { connection, get, may, resume, session, signOut } from "./api.mjs";
import { html, render, useEffect, useState } from "./html.mjs";
import { ConfirmDialog, Notice } from "./components.mjs";
import { Palette } from "./palette.mjs";
import { createStore, useEvery, useStore } from "./store.mjs";
import { time } from "./format.mjs";
import { AttentionView } from "./views/attention.mjs";
import { BuyerView } from "./views/buyers.mjs";
import { CreateView } from "./views/create.mjs";
import { HealthView } from "./views/health.mjs";
import { KeysView } from "./views/keys.mjs";
import { LoginView } from "./views/login.mjs";
import { OrdersView, SaleOrdersView } from "./views/orders.mjs";
import { JoinView } from "./views/join.mjs";
import { ActionsView } from "./views/actions.mjs";
import { TeamView } from "./views/team.mjs";
import { SaleView } from "./views/sale.mjs";
import { SalesView } from "./views/sales.mjs";
import { WebhooksView, WebhookView } from "./views/webhooks.mjs";
import * as paths from "../paths.mjs";

const VIEWS = [
  [/^#\/sales\/new$/, CreateView, "sales"],
  [/^#\/sale\/([^/]+)$/, SaleView, "sales"],
  [/^#\/attention$/, AttentionView, "attention"],
  [/^#\/orders(?:\/([^/]+))?$/, OrdersView, "orders"],
  [/^#\/orders\/of\/([^/]+)$/, SaleOrdersView, "orders"],
  [/^#\/buyers(?:\/([^/]+))?$/, BuyerView, "buyers"],
  [/^#\/webhooks$/, WebhooksView, "webhooks"],
  [/^#\/webhooks\/([^/]+)$/, WebhookView, "webhooks"],
  [/^#\/keys$/, KeysView, "keys"],
  [/^#\/team$/, TeamView, "team"],
  [/^#\/team\/actions$/, ActionsView, "team"],
  [/^#\/health$/, HealthView, "health"],
];
const TABS = [["sales", "Sales"], ["orders", "Orders"], ["attention", "Needs attention"], ["buyers", "Buyers"], ["webhooks", "Webhooks"], ["keys", "Keys"], ["team", "Team"], ["health", "Health"]];
const systemHealth = createStore(null);

function route() {
  for (const [pattern, view, tab] of VIEWS) {
    const found = pattern.exec(location.hash);
    if (found) return { view, tab, id: found[1] && decodeURIComponent(found[1]) };
  }
  return { view: SalesView, tab: "sales" };
}

function TabBadge({ tab }) {
  const health = useStore(systemHealth);
  if (!health) return null;
  const parked = Object.values(health.parked || {}).reduce((sum, count) => sum + count, 0);
  if (tab === "attention" && parked) return html`<span class="badge warn">${parked}<span class="visually-hidden"> items</span></span>`;
  if (tab === "health" && !health.ok) return html`<span class="badge bad">!<span class="visually-hidden"> unhealthy</span></span>`;
  return null;
}

function ConnectionLost() {
  const { lost, respondedAt } = useStore(connection);
  if (!lost) return null;
  const since = respondedAt === null ? "" : ` since ${time(respondedAt)}`;
  return html`<p class="connection-lost" role="alert"><span class="connection-light"></span>Connection lost${since}. Retrying every second.</p>`;
}

function Bar({ current }) {
  const signedIn = useStore(session);
  return html`<header class="bar">
    <a class="brand" href="#/sales"><img src="/assets/holdfast.svg" alt="" width="28" height="28" />Holdfast</a>
    <nav aria-label="Console">${TABS.map(([tab, label]) => html`<a key=${tab} href="#/${tab}"
      aria-current=${tab === current ? "page" : undefined}>${label}<${TabBadge} tab=${tab} /></a>`)}</nav>
    <span class="account" title=${signedIn.scopes.join(", ")}>${signedIn.name || "Admin key"}</span>
    <button class="button plain small" onClick=${() => signOut().catch(() => {})}>Sign out</button>
  </header>`;
}

function Console() {
  const signedIn = useStore(session);
  const [at, setAt] = useState(route());
  useEffect(() => {
    const move = () => {
      setAt(route());
      scrollTo(0, 0);
    };
    addEventListener("hashchange", move);
    return () => removeEventListener("hashchange", move);
  }, []);
  if (signedIn === undefined) return html`<${Loading} />`;
  const invitation = /^#\/join\/(.+)$/.exec(location.hash);
  if (invitation) return html`<${JoinView} token=${invitation[1]} />`;
  if (signedIn === null) return html`<${LoginView} />`;
  return html`<${Bar} current=${at.tab} /><${HealthPoll} /><${ConnectionLost} />
    <main><${at.view} key=${at.id} id=${at.id} /></main><${Notice} /><${ConfirmDialog} /><${Palette} tabs=${TABS} />`;
}

function Loading() {
  useEvery(1000, () => resume().catch(() => {}));
  return html`<main><${ConnectionLost} /></main>`;
}

/** Polls health for the badges in the navigation. */
function HealthPoll() {
  useEvery(4000, async () => {
    if (may("operate") || may("read")) systemHealth.set(await get(paths.getHealth()).catch(() => systemHealth.get()));
  });
  return null;
}

render(html`<${Console} />`, document.getElementById("console"));

// The console: who is signed in, and which view is shown.
import { contact, get, resume, session, signOut } from "./api.mjs";
import { html, render, useEffect, useState } from "./html.mjs";
import { Notice, Question } from "./parts.mjs";
import { createStore, useEvery, useStore } from "./store.mjs";
import { time } from "./words.mjs";
import { BuyerView } from "./views/buyers.mjs";
import { CreateView } from "./views/create.mjs";
import { HealthView } from "./views/health.mjs";
import { KeysView } from "./views/keys.mjs";
import { LoginView } from "./views/login.mjs";
import { ParkedView } from "./views/parked.mjs";
import { SaleView } from "./views/sale.mjs";
import { SalesView } from "./views/sales.mjs";
import { WebhooksView, WebhookView } from "./views/webhooks.mjs";

const VIEWS = [
  [/^#\/sales\/new$/, CreateView, "sales"],
  [/^#\/sale\/([^/]+)$/, SaleView, "sales"],
  [/^#\/parked$/, ParkedView, "parked"],
  [/^#\/buyers(?:\/([^/]+))?$/, BuyerView, "buyers"],
  [/^#\/webhooks$/, WebhooksView, "webhooks"],
  [/^#\/webhooks\/([^/]+)$/, WebhookView, "webhooks"],
  [/^#\/keys$/, KeysView, "keys"],
  [/^#\/health$/, HealthView, "health"],
];
const TABS = [["sales", "Sales"], ["parked", "Parked"], ["buyers", "Buyers"], ["webhooks", "Webhooks"], ["keys", "Keys"], ["health", "Health"]];
const system = createStore(null);

function route() {
  for (const [pattern, view, tab] of VIEWS) {
    const found = pattern.exec(location.hash);
    if (found) return { view, tab, id: found[1] && decodeURIComponent(found[1]) };
  }
  return { view: SalesView, tab: "sales" };
}

function Marks({ tab }) {
  const health = useStore(system);
  if (!health) return null;
  const parked = Object.values(health.parked || {}).reduce((sum, count) => sum + count, 0);
  if (tab === "parked" && parked) return html`<span class="mark warn">${parked}<span class="unseen"> waiting</span></span>`;
  if (tab === "health" && !health.ok) return html`<span class="mark bad">!<span class="unseen"> something is wrong</span></span>`;
  return null;
}

function Lost() {
  const { lost, heardAt } = useStore(contact);
  if (!lost) return null;
  const since = heardAt === null ? "The server cannot be reached" : `No news since ${time(heardAt)}`;
  return html`<p class="lost" role="alert"><span class="lost-light"></span>${since}. Trying again every second.</p>`;
}

function Bar({ current }) {
  const signedIn = useStore(session);
  return html`<header class="bar">
    <a class="brand" href="#/sales"><img src="/assets/holdfast.svg" alt="" width="28" height="28" />Holdfast</a>
    <nav aria-label="Console">${TABS.map(([tab, label]) => html`<a key=${tab} href="#/${tab}"
      aria-current=${tab === current ? "page" : undefined}>${label}<${Marks} tab=${tab} /></a>`)}</nav>
    <span class="who" title=${signedIn.scopes.join(", ")}>${signedIn.name || "Key with every scope"}</span>
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
  if (signedIn === undefined) return html`<${Waking} />`;
  if (signedIn === null) return html`<${LoginView} />`;
  return html`<${Bar} current=${at.tab} /><${Watch} /><${Lost} />
    <main><${at.view} key=${at.id} id=${at.id} /></main><${Notice} /><${Question} />`;
}

function Waking() {
  useEvery(1000, () => resume().catch(() => {}));
  return html`<main><${Lost} /></main>`;
}

/** How everything is, for the marks at the top. */
function Watch() {
  useEvery(4000, async () => {
    if (session.get()?.scopes.includes("operate")) system.set(await get("/v1/ops/health").catch(() => system.get()));
  });
  return null;
}

render(html`<${Console} />`, document.getElementById("console"));

/** The purchase panel: one view per state. */
import { headingOf } from "./announce.js";
import { BuyView } from "./views/buy.js";
import { CartView } from "./views/cart.js";
import { ConfirmedView } from "./views/confirmed.js";
import { DeclinedView, RefusedView } from "./views/failed.js";
import { HopingView, LookingView, PayingView, ProvingView, TurnView } from "./views/progress.js";
import { ReturnView } from "./views/returning.js";
import { WaitingView } from "./views/waiting.js";
import { html } from "./html.js";
import { useFocusAfterChange } from "./hooks.js";

const VIEWS = {
  looking: LookingView,
  upcoming: BuyView,
  proving: ProvingView,
  waiting: WaitingView,
  admitted: TurnView,
  reserving: TurnView,
  hoping: HopingView,
  cart: CartView,
  paying: PayingView,
  confirmed: ConfirmedView,
  declined: DeclinedView,
  refused: RefusedView,
};

const isReturning = ({ state, target }) => Boolean(target && state?.name === "admitted" && state.pass);

export function Panel(page) {
  const { state, problem, t } = page;
  // A sale that cannot be loaded is shown like a refusal.
  const shown = state ?? (problem && !page.sale ? { name: "refused", reason: problem.reason, problem } : null);
  const view = shown === null ? BuyView : isReturning(page) ? ReturnView : VIEWS[shown.name];
  const heading = headingOf({ ...page, state: shown });
  const focused = useFocusAfterChange(`${shown?.name} ${heading}`);
  return html`
    <section id="panel" class=${`panel ${shown?.name ?? "buy"}`} aria-label=${heading || t.buy.join} tabindex="-1">
      ${heading && html`<${page.sale ? "h2" : "h1"} class="panel-title" ref=${focused} tabindex="-1">${heading}<//>`}
      <${view} ...${page} state=${shown} key=${shown?.name} />
      ${shown?.trouble && html`<p class="trouble tag warn">${t.trouble[shown.trouble.kind]}</p>`}
    </section>
  `;
}

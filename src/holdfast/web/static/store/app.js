/** The page: what is sold on one side, how to get it on the other. */
import { useEffect, useState } from "../vendor/hooks.mjs";
import { announcementOf, titleOf } from "./announce.js";
import { money } from "./figures.js";
import { html } from "./html.js";
import { useBuying, useConfig, useSale } from "./live.js";
import { Panel } from "./panel.js";
import { Picture } from "./picture.js";
import { Steps } from "./steps.js";
import { Stock } from "./stock.js";
import { LANGUAGES, choose, firstLanguage, regionOf } from "./words.js";

export function App({ saleId }) {
  const [language, setLanguage] = useState(firstLanguage);
  const config = useConfig();
  const { isWatching, ...purchase } = useBuying(saleId, config);
  const watched = useSale(saleId, isWatching);
  const { state } = purchase;
  const sale = state?.sale ?? watched.sale;
  const now = (isWatching ? watched.now : state?.now) ?? state?.now ?? watched.now;
  const clock = () => (purchase.buying ?? { now: watched.serverNow }).now();
  const t = LANGUAGES[language];
  const page = { ...purchase, t, language: regionOf(language), sale, now, clock, saleId, config };
  page.problem = watched.problem;
  useEffect(() => {
    document.documentElement.lang = language;
    document.title = titleOf(page);
  });
  const change = (chosen) => {
    choose(chosen);
    setLanguage(chosen);
  };
  return html`
    <a class="skip button" href="#panel">${t.page.skip}</a>
    <${Top} t=${t} language=${language} change=${change} isDemo=${config?.demo} />
    <main class=${state === null ? "product" : "product under-way"}>
      <${Shown} ...${page} />
      <div class="offer">
        ${sale && html`<${Offer} ...${page} />`}
        <${Panel} ...${page} />
        <${Steps} t=${t} name=${state?.name ?? null} sale=${sale} now=${now} />
      </div>
    </main>
    <p class="unseen" role="status">${announcementOf(page)}</p>
  `;
}

function Top({ t, language, change, isDemo }) {
  return html`
    <header class="top">
      <span class="mark"><img src="/assets/holdfast.svg" alt="" width="28" height="28" /> Holdfast</span>
      ${isDemo && html`<span class="demo"><span class="tag">${t.page.demo}</span> <span>${t.page.demoNote}</span></span>`}
      <div class="languages" role="group" aria-label=${t.page.language}>
        ${Object.entries(LANGUAGES).map(
          ([code, words]) => html`
            <button
              type="button"
              lang=${code}
              aria-pressed=${code === language ? "true" : "false"}
              aria-label=${words.name}
              onClick=${() => change(code)}
            >
              ${code.toUpperCase()}
            </button>
          `,
        )}
      </div>
    </header>
  `;
}

function Shown({ sale, saleId, t }) {
  const picture =
    sale?.image_url && html`<img class="picture" src=${sale.image_url} alt=${t.page.photoOf(sale.name)} />`;
  return html`<figure class="shown">${picture || html`<${Picture} id=${saleId} />`}</figure>`;
}

function Offer({ sale, now, state, t, language, clock }) {
  return html`
    <div class="about">
      <${Stock} now=${now} t=${t} language=${language} clock=${clock} />
      <h1>${sale.name}</h1>
      <p class="price figures">
        ${money(sale.price, language)}
        ${sale.per_buyer_limit && html`<span class="limit">${t.page.perPerson(sale.per_buyer_limit)}</span>`}
      </p>
      ${state === null && sale.description && html`<p class="description">${sale.description}</p>`}
    </div>
  `;
}

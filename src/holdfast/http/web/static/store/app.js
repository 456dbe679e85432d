/** The page: the product on one side, the purchase on the other. */
import { useEffect, useState } from "../vendor/hooks.mjs";
import { announcementOf, titleOf } from "./announce.js";
import { money } from "./format.js";
import { html } from "./html.js";
import { useConfig, useMine, usePurchase, useSale } from "./hooks.js";
import { Panel } from "./panel.js";
import { Placeholder } from "./placeholder.js";
import { returnTarget } from "./return-to.js";
import { Steps } from "./steps.js";
import { Stock } from "./stock.js";
import { LANGUAGES, initialLanguage, regionOf, saveLanguage } from "./language.js";

export function App({ saleId }) {
  const [language, setLanguage] = useState(initialLanguage);
  const config = useConfig();
  const { isWatching, ...purchase } = usePurchase(saleId, config);
  const watched = useSale(saleId, isWatching);
  const { state } = purchase;
  const sale = state?.sale ?? watched.sale;
  const now = (isWatching ? watched.now : state?.now) ?? state?.now ?? watched.now;
  const clock = () => (purchase.buying ?? { now: watched.serverNow }).now();
  const t = LANGUAGES[language];
  const page = { ...purchase, t, language: regionOf(language), sale, now, clock, saleId, config };
  page.problem = watched.problem;
  page.mine = useMine(saleId, config, now !== null && now !== undefined && now.state !== "upcoming", state === null);
  page.target = sale && config ? returnTarget(sale, config.return_origins ?? []) : null;
  useEffect(() => {
    document.documentElement.lang = language;
    document.title = titleOf(page);
  });
  const changeLanguage = (chosen) => {
    saveLanguage(chosen);
    setLanguage(chosen);
  };
  return html`
    <a class="skip button" href="#panel">${t.page.skip}</a>
    <${Header} t=${t} language=${language} onLanguage=${changeLanguage} config=${config} brand=${sale?.brand} />
    <main class=${state === null ? "product" : "product in-progress"}>
      <${Photo} ...${page} />
      <div class="offer">
        ${sale && html`<${Offer} ...${page} />`}
        ${sale?.brand?.message && html`<p class="message">${sale.brand.message}</p>`}
        <${Panel} ...${page} />
        <${Steps} ...${page} name=${state?.name ?? null} />
      </div>
    </main>
    <p class="visually-hidden" role="status">${announcementOf(page)}</p>
  `;
}

function Header({ t, language, onLanguage, config, brand }) {
  return html`
    <header class="header">
      <span class="brand"><img src=${brand?.logo_url ?? "/assets/holdfast.svg"} alt="" width="28" height="28" /> ${brand?.name ?? "Holdfast"}</span>
      ${config?.demo && html`
        <span class="demo">
          <span class="tag">${t.page.demo}</span> <span class="demo-note">${t.page.demoNote}</span>
          ${config.simulation_url && html`<a href=${config.simulation_url}>${t.page.simulation}</a>`}
        </span>`}
      <div class="languages" role="group" aria-label=${t.page.language}>
        ${Object.entries(LANGUAGES).map(
          ([code, words]) => html`
            <button
              type="button"
              lang=${code}
              aria-pressed=${code === language ? "true" : "false"}
              aria-label=${words.name}
              onClick=${() => onLanguage(code)}
            >
              ${code.toUpperCase()}
            </button>
          `,
        )}
      </div>
    </header>
  `;
}

function Photo({ sale, saleId, t }) {
  const image = sale?.image_url && html`<img class="image" src=${sale.image_url} alt=${t.page.photoOf(sale.name)} />`;
  return html`<figure class="photo">${image || html`<${Placeholder} id=${saleId} />`}</figure>`;
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

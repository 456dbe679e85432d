import { html } from "../html.mjs";
import { showNotice } from "../components.mjs";

/** A secret that is shown only once. */
export function Secret({ title, text, onDone }) {
  const copy = () => navigator.clipboard.writeText(text).then(() => showNotice("Copied."), () => showNotice("The browser does not allow copying here. Select the text instead.", "bad"));
  return html`<section class="card secret" aria-label=${title}><h2>${title}</h2><p class="code" data-secret>${text}</p>
    <p class="hint">Shown only once. Store it safely now.</p>
    <div class="actions"><button class="button" onClick=${copy}>Copy</button><button class="button main" onClick=${onDone}>Done</button></div></section>`;
}

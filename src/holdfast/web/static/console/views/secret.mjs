import { html } from "../html.mjs";
import { tell } from "../parts.mjs";

/** Something that is shown this once. */
export function Secret({ title, text, onDone }) {
  const copy = () => navigator.clipboard.writeText(text).then(() => tell("Copied."), () => tell("Copying is not allowed here; select it.", "bad"));
  return html`<section class="card secret" aria-label=${title}><h2>${title}</h2><p class="code" data-secret>${text}</p>
    <p class="hint">Shown this once. Keep it safe before you go on.</p>
    <div class="actions"><button class="button" onClick=${copy}>Copy</button><button class="button main" onClick=${onDone}>I have it</button></div></section>`;
}

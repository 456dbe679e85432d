/** A button that asks for confirmation in place, without a dialog. */
import { useState } from "../../vendor/hooks.mjs";
import { html } from "../html.js";

export function ConfirmButton({ label, question, yes, no, onYes, disabled = false }) {
  const [isAsking, setAsking] = useState(false);
  if (!isAsking) {
    return html`<button type="button" class="button plain" disabled=${disabled} onClick=${() => setAsking(true)}>${label}</button>`;
  }
  return html`
    <div class="confirm" role="group" aria-label=${question}>
      <p>${question}</p>
      <button type="button" class="button" ref=${(node) => node?.focus()} onClick=${() => setAsking(false)}>${no}</button>
      <button type="button" class="button danger" disabled=${disabled} onClick=${onYes}>${yes}</button>
    </div>
  `;
}

/** The visitor's turn, and the way back to the shop: a form, so that the pass is in no URL. */
import { useEffect, useRef } from "../../vendor/hooks.mjs";
import { html } from "../html.js";
import { isFirstReturn, returnForm } from "../return-to.js";
import { Spinner } from "./progress.js";

export function ReturnView({ state, target, t }) {
  const form = useRef(null);
  const { action, name, value } = returnForm(target, state.pass);
  useEffect(() => {
    if (isFirstReturn(state.pass)) form.current?.submit();
  }, [state.pass]);
  return html`
    <div class="progress-row"><${Spinner} /><p>${t.turn.back(target.host)}</p></div>
    <form method="post" action=${action} ref=${form}>
      <input type="hidden" name=${name} value=${value} />
      <button type="submit" class="button main large">${t.turn.backButton}</button>
    </form>
  `;
}

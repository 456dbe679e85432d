// Components shared by several views.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.mjs";
import { createStore, useStore } from "./store.mjs";

export const notice = createStore(null);
let noticeTimer = 0;

export function showNotice(text, kind = "good") {
  notice.set({ text, kind });
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => notice.set(null), kind === "bad" ? 12_000 : 5_000);
}

export function Notice() {
  const current = useStore(notice);
  return html`<div class="notices" role="status" aria-live="polite">
    ${current && html`<p class="notice ${current.kind}">${current.text}</p>`}
  </div>`;
}

export function Heading({ title, children }) {
  const heading = useRef(null);
  useEffect(() => {
    document.title = `${title} · Holdfast console`;
    heading.current.focus({ preventScroll: true });
  }, [title]);
  return html`<div class="view-head"><h1 ref=${heading} tabindex="-1">${title}</h1><div class="actions">${children}</div></div>`;
}

export function Tag({ kind = "", children }) {
  return html`<span class="tag ${kind}">${children}</span>`;
}

/** A labelled input with its validation error. */
export function Field({ label, name, hint, error, children, ...attributes }) {
  const id = `field-${name.replace(".", "-")}`;
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ") || undefined;
  const shared = { id, name, "aria-describedby": described, "aria-invalid": error ? "true" : undefined };
  return html`<div class="field ${error ? "has-error" : ""}">
    <label for=${id}>${label}</label>
    ${children ? children(shared) : html`<input ...${shared} ...${attributes} />`}
    ${hint && html`<p class="hint" id="${id}-hint">${hint}</p>`}
    ${error && html`<p class="error" id="${id}-error">${error}</p>`}
  </div>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

const dialogRequest = createStore(null);

/** Asks for confirmation; resolves to whether it was given. `typed` has to be typed in first. */
export function confirmDialog(request) {
  return new Promise((resolve) => dialogRequest.set({ ...request, resolve }));
}

export function ConfirmDialog() {
  const request = useStore(dialogRequest);
  const dialog = useRef(null);
  const [typed, setTyped] = useState("");
  useLayoutEffect(() => {
    setTyped("");
    if (request) dialog.current.showModal();
  }, [request]);
  if (!request) return null;
  const close = (isConfirmed) => {
    dialogRequest.set(null);
    request.resolve(isConfirmed);
  };
  const isBlocked = request.typed !== undefined && typed.trim() !== request.typed;
  const submit = (event) => {
    event.preventDefault();
    if (!isBlocked) close(true);
  };
  return html`<dialog ref=${dialog} aria-labelledby="dialog-title" onCancel=${(event) => { event.preventDefault(); close(false); }}>
    <form onSubmit=${submit}>
      <h2 id="dialog-title">${request.title}</h2>
      ${request.text && html`<p>${request.text}</p>`}
      ${request.typed !== undefined && html`<${Field} name="typed" label=${`Type ${request.typed} to confirm`} value=${typed}
        autocomplete="off" spellcheck="false" onInput=${(event) => setTyped(event.target.value)} />`}
      <div class="actions">
        <button class="button" type="button" onClick=${() => close(false)}>Cancel</button>
        <button class="button ${request.danger ? "danger" : "main"}" type="submit" disabled=${isBlocked}>${request.action}</button>
      </div>
    </form>
  </dialog>`;
}

/** Runs `work` and shows the result as a notice; resolves to whether it succeeded. */
export async function attempt(work, done) {
  try {
    await work();
    if (done) showNotice(done);
    return true;
  } catch (problem) {
    showNotice(problem.message, "bad");
    return false;
  }
}

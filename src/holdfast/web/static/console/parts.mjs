// What several views are made of.
import { html, useEffect, useRef, useState } from "./html.mjs";
import { createStore, useStore } from "./store.mjs";

export const notice = createStore(null);
let noticeTimer = 0;

export function tell(text, kind = "good") {
  notice.set({ text, kind });
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => notice.set(null), kind === "bad" ? 12_000 : 5_000);
}

export function Notice() {
  const given = useStore(notice);
  return html`<div class="notice-place" role="status" aria-live="polite">
    ${given && html`<p class="notice ${given.kind}">${given.text}</p>`}
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

/** A labelled input with the server's complaint under it. */
export function Field({ label, name, hint, wrong, children, ...given }) {
  const id = `field-${name.replace(".", "-")}`;
  const described = [hint && `${id}-hint`, wrong && `${id}-wrong`].filter(Boolean).join(" ") || undefined;
  const shared = { id, name, "aria-describedby": described, "aria-invalid": wrong ? "true" : undefined };
  return html`<div class="field ${wrong ? "is-wrong" : ""}">
    <label for=${id}>${label}</label>
    ${children ? children(shared) : html`<input ...${shared} ...${given} />`}
    ${hint && html`<p class="hint" id="${id}-hint">${hint}</p>`}
    ${wrong && html`<p class="wrong" id="${id}-wrong">${wrong}</p>`}
  </div>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

const asked = createStore(null);

/** Asks before harm; gives whether to go on. `typed` has to be typed in first. */
export function ask(question) {
  return new Promise((answer) => asked.set({ ...question, answer }));
}

export function Question() {
  const question = useStore(asked);
  const dialog = useRef(null);
  const [typed, setTyped] = useState("");
  useEffect(() => {
    setTyped("");
    if (question) dialog.current.showModal();
  }, [question]);
  if (!question) return null;
  const close = (answer) => {
    asked.set(null);
    question.answer(answer);
  };
  const isHeld = question.typed !== undefined && typed.trim() !== question.typed;
  const submit = (event) => {
    event.preventDefault();
    if (!isHeld) close(true);
  };
  return html`<dialog ref=${dialog} aria-labelledby="question" onCancel=${(event) => { event.preventDefault(); close(false); }}>
    <form onSubmit=${submit}>
      <h2 id="question">${question.title}</h2>
      <p>${question.text}</p>
      ${question.typed !== undefined && html`<${Field} name="typed" label=${`Type ${question.typed} to go on`} value=${typed}
        autocomplete="off" spellcheck="false" onInput=${(event) => setTyped(event.target.value)} />`}
      <div class="actions">
        <button class="button" type="button" onClick=${() => close(false)}>Leave it</button>
        <button class="button ${question.harmful ? "harmful" : "main"}" type="submit" disabled=${isHeld}>${question.action}</button>
      </div>
    </form>
  </dialog>`;
}

/** Does it, and says how it went; gives whether it went well. */
export async function attempt(work, done) {
  try {
    await work();
    if (done) tell(done);
    return true;
  } catch (problem) {
    tell(problem.message, "bad");
    return false;
  }
}

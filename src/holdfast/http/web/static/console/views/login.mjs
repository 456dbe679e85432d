import { signIn } from "../api.mjs";
import { html, useEffect, useRef, useState } from "../html.mjs";

export function LoginView() {
  const key = useRef(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · Holdfast console";
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(key.current.value.trim());
    } catch (problem) {
      setError(problem.status === 401 ? "This key is unknown or has been revoked." : problem.message);
    } finally {
      if (key.current) key.current.value = "";
      setBusy(false);
    }
  };
  return html`<main class="login">
    <form class="card" onSubmit=${submit}>
      <img src="/assets/holdfast.svg" alt="" width="48" height="48" />
      <h1>Console</h1>
      <p class="quiet">Sign in with a service key. Find it in the server's data directory as <span class="code">service_key</span>, or create one with
        ${" "}<span class="code">holdfast keys create</span>.</p>
      <label for="key">Service key</label>
      <input id="key" ref=${key} type="password" autocomplete="current-password" required spellcheck="false" placeholder="hf_…"
        aria-describedby=${error ? "key-error" : undefined} aria-invalid=${error ? "true" : undefined} />
      ${error && html`<p class="error" id="key-error" role="alert">${error}</p>`}
      <button class="button main" disabled=${busy}>Sign in</button>
      <p class="hint">The key is not stored in the browser. You stay signed in for 12 hours.</p>
    </form>
  </main>`;
}

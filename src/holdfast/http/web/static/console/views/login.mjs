import { get, signIn, signInWithPassword } from "../api.mjs";
import { html, useEffect, useState } from "../html.mjs";
import * as paths from "../../paths.mjs";

const REFUSED = {
  not_invited: "This account has not been invited. Ask an administrator for an invitation to its email address.",
  sign_in_expired: "The sign-in took too long or was started in another window. Try again.",
  identity_refused: "The identity provider's answer was not valid. Try again, or ask an administrator.",
  issuer_unavailable: "The identity provider does not answer. Try again in a minute.",
  no_issuer: "No identity provider is configured.",
};

const refusedBefore = () => {
  const found = /^#\/sign-in\/(\w+)$/.exec(location.hash);
  return found ? REFUSED[found[1]] || "Signing in failed. Try again." : null;
};

export function LoginView() {
  const [options, setOptions] = useState(null);
  const [withKey, setWithKey] = useState(false);
  useEffect(() => {
    document.title = "Sign in · Holdfast console";
    get(paths.getSignIn()).then(setOptions, () => setOptions({ password: false, oidc: false }));
  }, []);
  const isTeam = options?.password || options?.oidc;
  return html`<main class="login"><div class="card">
    <img src="/assets/holdfast.svg" alt="" width="48" height="48" />
    <h1>Console</h1>
    ${refusedBefore() && html`<p class="error" role="alert">${refusedBefore()}</p>`}
    ${options && isTeam && !withKey && html`<${TeamForms} options=${options} />
      <button class="button plain small" onClick=${() => setWithKey(true)}>Use a service key instead</button>`}
    ${options && (!isTeam || withKey) && html`<${KeyForm} />
      ${isTeam && html`<button class="button plain small" onClick=${() => setWithKey(false)}>Sign in by name instead</button>`}`}
  </div></main>`;
}

function TeamForms({ options }) {
  return html`${options.oidc && html`<a class="button main" href="/v1/console/oidc">Sign in with your identity provider</a>`}
    ${options.oidc && options.password && html`<p class="quiet or">or</p>`}
    ${options.password && html`<${PasswordForm} isMain=${!options.oidc} />`}`;
}

function useSubmit(work, wrong) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    setBusy(true);
    try {
      await work(new FormData(form));
      history.replaceState(null, "", location.hash.startsWith("#/sign-in/") ? "#/sales" : location.hash || "#/sales");
    } catch (problem) {
      setError(problem.status === 401 ? wrong : problem.message);
      for (const secret of form.querySelectorAll("[type=password]")) secret.value = "";
    } finally {
      setBusy(false);
    }
  };
  return { error, busy, submit };
}

function PasswordForm({ isMain }) {
  const { error, busy, submit } = useSubmit((given) => signInWithPassword(given.get("email").trim(), given.get("password")), "The email address or the password is wrong.");
  return html`<form onSubmit=${submit}>
    <label for="email">Email address</label>
    <input id="email" name="email" type="email" autocomplete="username" required spellcheck="false" />
    <label for="password">Password</label>
    <input id="password" name="password" type="password" autocomplete="current-password" required aria-describedby=${error ? "password-error" : undefined} aria-invalid=${error ? "true" : undefined} />
    ${error && html`<p class="error" id="password-error" role="alert">${error}</p>`}
    <button class="button ${isMain ? "main" : ""}" disabled=${busy}>Sign in</button>
    <p class="hint">You stay signed in for 12 hours. Forgotten your password? An administrator can invite you again.</p>
  </form>`;
}

function KeyForm() {
  const { error, busy, submit } = useSubmit((given) => signIn(given.get("key").trim()), "This key is unknown or has been revoked.");
  return html`<form onSubmit=${submit}>
    <p class="quiet">Sign in with a service key. Find it in the server's data directory as <span class="code">service_key</span>, or create one with
      ${" "}<span class="code">holdfast keys create</span>.</p>
    <label for="key">Service key</label>
    <input id="key" name="key" type="password" autocomplete="current-password" required spellcheck="false" placeholder="hf_…"
      aria-describedby=${error ? "key-error" : undefined} aria-invalid=${error ? "true" : undefined} />
    ${error && html`<p class="error" id="key-error" role="alert">${error}</p>`}
    <button class="button main" disabled=${busy}>Sign in</button>
    <p class="hint">The key is not stored in the browser. You stay signed in for 12 hours.</p>
  </form>`;
}

import { acceptInvitation } from "../api.mjs";
import { html, useEffect, useState } from "../html.mjs";

const LEAST = 12;

/** Takes up an invitation: sets a password and signs in. */
export function JoinView({ token }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Join · Holdfast console";
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    if (given.get("password") !== given.get("again")) return setError("The two passwords differ.");
    setBusy(true);
    try {
      await acceptInvitation(token, given.get("password"));
      location.hash = "#/sales";
    } catch (problem) {
      setError(problem.reason === "invitation_not_found" ? "This invitation was used, has expired or was replaced. Ask for a new one." : problem.message);
    } finally {
      setBusy(false);
    }
  };
  return html`<main class="login"><form class="card" onSubmit=${submit}>
    <img src="/assets/holdfast.svg" alt="" width="48" height="48" />
    <h1>Welcome</h1>
    <p class="quiet">You were invited to this console. Choose a password of at least ${LEAST} characters.</p>
    <label for="password">New password</label>
    <input id="password" name="password" type="password" autocomplete="new-password" minlength=${LEAST} required />
    <label for="again">Repeat it</label>
    <input id="again" name="again" type="password" autocomplete="new-password" minlength=${LEAST} required aria-describedby=${error ? "join-error" : undefined} aria-invalid=${error ? "true" : undefined} />
    ${error && html`<p class="error" id="join-error" role="alert">${error}</p>`}
    <button class="button main" disabled=${busy}>Join</button>
  </form></main>`;
}

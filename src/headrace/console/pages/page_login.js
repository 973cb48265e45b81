/* The door: a key goes in, a cookie that scripts cannot read comes back.

   The key is in this page for as long as the form is sent, and is kept nowhere. */

import { post } from "./api.js";
import { html, Problem, useState } from "./ui.js";

const ADVICE = {
  401: "Check that you pasted all of it, and that it was not revoked.",
  403: "A sender's key opens the ingest gateway and nothing here: log in with another.",
};

/** What to do about a key that opened nothing. */
const told = (error) => error && { message: error.message, advice: ADVICE[error.status] || error.advice };

export function Login({ error, enter }) {
  const [state, set] = useState({ busy: false, error });
  const go = async (event) => {
    event.preventDefault();
    const form = event.target;
    set({ busy: true, error: null });
    try {
      await post("/v1/session", { key: new FormData(form).get("key").trim() });
      await enter();
    } catch (refused) {
      set({ busy: false, error: refused });
      form.elements.key.select();
    }
  };
  return html`<main class="alone"><form class="login" onSubmit=${go}>
    <svg class="login-mark" viewBox="0 0 24 24" aria-hidden="true"><path d="M2 7h12M2 12h8.5M2 17h15" />
      <path class="gate" d="M19.5 3v6M19.5 13v8" /></svg>
    <h1 tabindex="-1">Headrace</h1>
    <p class="pale">Every tenant's stream, and who waits.</p>
    <label for="key">Key</label>
    <input id="key" name="key" type="password" autocomplete="current-password" spellcheck="false" required
      autofocus placeholder="hr_…" aria-describedby="key-hint" />
    <button class="button is-main is-wide" disabled=${state.busy}>${state.busy ? "Logging in…" : "Log in"}</button>
    <${Problem} error=${told(state.error)} />
    <p class="hint"
        id="key-hint">The first start of <code>headrace console</code> prints an operator's key with a link.
      <code>headrace keys create</code> makes another.</p>
  </form></main>`;
}

/** Stripe's own script and form: card data goes to Stripe, never to this server. */
const loaded = new Map();

/** Stripe's script must come from Stripe. It is loaded once, and only where a card is to be typed in. */
export function loadStripe({ script_url: url, publishable_key: key }) {
  if (!loaded.has(url)) {
    const loading = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => resolve(window.Stripe(key)));
      script.addEventListener("error", () => {
        loaded.delete(url);
        reject(new Error("Stripe's script cannot be loaded"));
      });
      document.head.append(script);
    });
    loaded.set(url, loading);
  }
  return loaded.get(url);
}

const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

/** The Payment Element in `place`. The amount is only shown; the server charges what the reservation costs. */
export async function mountCardForm(config, { amount, currency }, place, locale) {
  const stripe = await loadStripe(config);
  const elements = stripe.elements({
    mode: "payment",
    amount,
    currency: currency.toLowerCase(),
    captureMethod: "manual",
    paymentMethodTypes: ["card"],
    locale,
    appearance: { theme: isDark() ? "night" : "stripe" },
  });
  const element = elements.create("payment");
  element.mount(place);
  return { makeToken: () => makeToken(stripe, elements), remove: () => element.destroy() };
}

/** `{id}` names the card to the server; `{message}` is for the buyer, in their language. */
async function makeToken(stripe, elements) {
  const { error: incomplete } = await elements.submit();
  if (incomplete) return { message: incomplete.message };
  const { error, confirmationToken } = await stripe.createConfirmationToken({ elements });
  return error ? { message: error.message } : { id: confirmationToken.id };
}

/** The bank's page, in a frame of Stripe's. How it went is for the server to find out. */
export async function askBank(config, clientSecret) {
  const stripe = await loadStripe(config);
  await stripe.handleNextAction({ clientSecret });
}

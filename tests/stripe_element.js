/** A stand-in for Stripe.js: a form of its own, tokens, and the bank's page in a frame. */
const base = new URL(document.currentScript.src).origin;

window.Stripe = (key) => ({
  elements: (options) => ({
    options,
    create: () => ({
      mount(place) {
        const label = document.createElement("label");
        label.textContent = "Card number";
        const input = document.createElement("input");
        input.name = "card";
        label.append(input);
        place.replaceChildren(label);
        window.stripeOptions = options;
      },
      on(event, listener) {
        if (event === "ready") queueMicrotask(listener);
      },
      destroy() {},
    }),
    submit: async () => (document.querySelector('[name="card"]').value ? {} : { error: { message: "Your card number is incomplete." } }),
  }),
  createConfirmationToken: async () => {
    const body = new URLSearchParams({ key, number: document.querySelector('[name="card"]').value });
    const response = await fetch(`${base}/v1/confirmation_tokens`, { method: "POST", body });
    return { confirmationToken: await response.json() };
  },
  handleNextAction: ({ clientSecret }) =>
    new Promise((resolve) => {
      const frame = document.createElement("iframe");
      frame.title = "Your bank";
      frame.src = `${base}/bank/${clientSecret}`;
      window.addEventListener("message", function answered({ origin }) {
        if (origin !== base) return;
        window.removeEventListener("message", answered);
        frame.remove();
        resolve({});
      });
      document.body.append(frame);
    }),
});

/** How the cart is paid: with one button, a card form, or one of the sandbox's test cards. */
import { html } from "../html.js";
import { mountCardForm } from "../stripe.js";
import { useEffect, useRef, useState } from "../../vendor/hooks.mjs";

/** What the payment sandbox does with each. */
const TEST_CARDS = [
  ["pm_works", "works"],
  ["pm_decline", "declined"],
  ["pm_bank", "bank"],
  ["pm_slow", "slow"],
  ["pm_lost_reply", "lostReply"],
];

export function Pay(page) {
  const { sale, config } = page;
  if (sale.payment === "stripe" && config?.stripe) return html`<${CardForm} ...${page} />`;
  if (sale.payment === "sandbox" && config?.demo) return html`<${TestCards} ...${page} />`;
  return html`<${PayButton} ...${page} onPay=${() => page.buying.pay()} />`;
}

function PayButton({ state, t, price, onPay, isWaiting = false }) {
  const label = state.reservation.last_decline ? t.cart.payAgain(price) : t.cart.pay(price);
  return html`<button type="button" class="button main large" disabled=${state.isBusy || isWaiting} onClick=${onPay}>
    ${label}
  </button>`;
}

function CardForm(page) {
  const { state, config, t, language, buying } = page;
  const place = useRef(null);
  const form = useRef(null);
  const [isWaiting, setWaiting] = useState(true);
  const [message, setMessage] = useState(null);
  useEffect(() => {
    let isGone = false;
    mountCardForm(config.stripe, state.reservation, place.current, language.slice(0, 2)).then(
      (mounted) => {
        if (isGone) return mounted.remove();
        form.current = mounted;
        return setWaiting(false);
      },
      () => setMessage(t.card.unavailable),
    );
    return () => {
      isGone = true;
      form.current?.remove();
    };
  }, []);
  const pay = async () => {
    setWaiting(true);
    setMessage(null);
    const token = await form.current.makeToken().catch(() => ({ message: t.card.unavailable }));
    if (token.id) await buying.pay(token.id);
    else setMessage(token.message);
    setWaiting(false);
  };
  return html`
    <div class="card-form" ref=${place}></div>
    ${message && html`<p class="note warn" role="alert">${message}</p>`}
    <${PayButton} ...${page} onPay=${pay} isWaiting=${isWaiting} />
    <p class="small">${t.card.byStripe}</p>
  `;
}

function TestCards(page) {
  const { state, t, buying } = page;
  const [chosen, choose] = useState(TEST_CARDS[0][0]);
  const [, hint] = t.card.tests[new Map(TEST_CARDS).get(chosen)];
  return html`
    <div class="test-cards">
      <label>
        ${t.card.test}
        <select value=${chosen} disabled=${state.isBusy} onChange=${(event) => choose(event.target.value)}>
          ${TEST_CARDS.map(([id, name]) => html`<option value=${id}>${t.card.tests[name][0]}</option>`)}
        </select>
      </label>
      <p class="small">${hint}</p>
    </div>
    <${PayButton} ...${page} onPay=${() => buying.pay(chosen)} />
  `;
}

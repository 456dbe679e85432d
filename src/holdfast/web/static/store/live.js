/** What changes while one looks: the sale, the purchase, and the clock. */
import { buyerOf, hasBegun, joinAndBuy, watchSale } from "../holdfast.js";
import { useEffect, useRef, useState } from "../vendor/hooks.mjs";

/** States in which `joinAndBuy` itself does not look at the sale. */
const UNWATCHED = new Set(["cart", "paying", "confirmed", "declined", "refused"]);

export function useConfig() {
  const [config, setConfig] = useState(null);
  useEffect(() => {
    fetch("/store/config.json")
      .then((answer) => answer.json())
      .then(setConfig, () => setConfig({ token_url: null, demo: false }));
  }, []);
  return config;
}

export function useSale(saleId, isWatching) {
  const [seen, setSeen] = useState({ sale: null, now: null, problem: null, serverNow: Date.now });
  useEffect(() => (isWatching ? watchSale(saleId, setSeen) : undefined), [saleId, isWatching]);
  return seen;
}

async function fetchToken(url) {
  if (!url) throw new Error("no address of tokens is set");
  const answer = await fetch(url, { credentials: "include", cache: "no-store" });
  if (!answer.ok) throw new Error(`the login answered ${answer.status}`);
  return (await answer.json()).token;
}

/** The purchase under way, if any: begun by a click, or before the page was loaded again. */
export function useBuying(saleId, config) {
  const [state, setState] = useState(null);
  const buying = useRef(null);
  const begin = () => {
    buying.current?.stop();
    buying.current = joinAndBuy(saleId, { token: () => fetchToken(config.token_url), onState: setState });
    setState(buying.current.state);
  };
  const end = () => {
    buying.current?.stop();
    buying.current = null;
    setState(null);
  };
  useEffect(() => {
    // Who is asked for only if there is something to go on with, and it may be somebody else's.
    if (config === null || !hasBegun(saleId)) return;
    const goOn = (token) => hasBegun(saleId, buyerOf(token)) && begin();
    fetchToken(config.token_url).then(goOn, begin);
  }, [config]);
  return { state, begin, end, buying: buying.current, isWatching: state === null || UNWATCHED.has(state.name) };
}

/** The time by `clock`, again and again. */
export function useTime(clock, everyMs = 250) {
  const [time, setTime] = useState(clock);
  useEffect(() => {
    const timer = setInterval(() => setTime(clock()), everyMs);
    return () => clearInterval(timer);
  }, []);
  return time;
}

/** A button that was pressed is gone with what it did; whoever uses the keyboard goes on at the new heading. */
export function useFocusAfterChange(key) {
  const heading = useRef(null);
  const shown = useRef(key);
  useEffect(() => {
    const isLost = document.activeElement === null || document.activeElement === document.body;
    if (shown.current !== key && isLost) heading.current?.focus({ preventScroll: true });
    shown.current = key;
  }, [key]);
  return heading;
}

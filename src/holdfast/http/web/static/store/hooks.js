/** Hooks: configuration, the sale, the purchase and the clock. */
import { buyerOf, findMine, hasBegun, joinAndBuy, liveReservation, watchSale, watchTabs } from "../holdfast.js";
import { FACTS } from "./facts.js";
import { returnTarget } from "./return-to.js";
import { useEffect, useRef, useState } from "../vendor/hooks.mjs";

/** States in which `joinAndBuy` does not poll the sale itself. */
const NOT_POLLING = new Set(["cart", "paying", "confirmed", "declined", "refused"]);

const MINE_WITHIN_MS = 1_000;

export function useConfig() {
  const [config, setConfig] = useState(FACTS.config);
  useEffect(() => {
    if (FACTS.config !== null) return;
    fetch("/store/config.json")
      .then((response) => response.json())
      .then(setConfig, () => setConfig({ token_url: null, demo: false }));
  }, []);
  return config;
}

export function useSale(saleId, isWatching) {
  const [current, setCurrent] = useState({ sale: FACTS.sale, now: null, problem: null, serverNow: Date.now });
  useEffect(() => (isWatching ? watchSale(saleId, setCurrent, { sale: FACTS.sale }) : undefined), [saleId, isWatching]);
  return current;
}

async function fetchToken(url) {
  if (!url) throw new Error("HOLDFAST_BUYER_TOKEN_URL is not set");
  const response = await fetch(url, { credentials: "include", cache: "no-store" });
  if (!response.ok) throw new Error(`the login responded with ${response.status}`);
  return (await response.json()).token;
}

/** The current purchase, if any: started by a click, or resumed after a reload. */
export function usePurchase(saleId, config) {
  const [state, setState] = useState(null);
  const buying = useRef(null);
  const begin = () => {
    buying.current?.stop();
    const passOnly = (sale) => returnTarget(sale, config.return_origins ?? []) !== null;
    buying.current = joinAndBuy(saleId, { token: () => fetchToken(config.token_url), passOnly, onState: setState });
    setState(buying.current.state);
  };
  const end = () => {
    buying.current?.stop();
    buying.current = null;
    setState(null);
  };
  useEffect(() => {
    if (config === null) return;
    const resume = () => {
      // Fetch a token only if there is a stored purchase. It may belong to another buyer of this browser.
      if (buying.current !== null || !hasBegun(saleId)) return;
      const beginOnce = () => buying.current === null && begin();
      fetchToken(config.token_url).then((token) => hasBegun(saleId, buyerOf(token)) && beginOnce(), beginOnce);
    };
    resume();
    return watchTabs(saleId, resume);
  }, [config]);
  return { state, begin, end, buying: buying.current, isWatching: state === null || NOT_POLLING.has(state.name) };
}

/**
 * What this buyer began on another device, or before the storage was cleared: `{reservation, hasPlace}`, or null.
 * Asked once, after the sale has opened, and spread over a second: many open the page in the same moment.
 */
export function useMine(saleId, config, isOpened, isIdle) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    if (!config?.token_url || !isOpened || !isIdle || hasBegun(saleId)) return;
    const look = async () => {
      const mine = await findMine(saleId, { token: () => fetchToken(config.token_url) });
      const reservation = liveReservation(mine);
      if (reservation || mine.place) setFound({ reservation, hasPlace: Boolean(mine.place) });
    };
    const timer = setTimeout(() => look().catch(() => {}), Math.random() * MINE_WITHIN_MS);
    return () => clearTimeout(timer);
  }, [config, isOpened, isIdle]);
  return isIdle ? found : null;
}

/** The time by `clock`, updated every `everyMs`. */
export function useTime(clock, everyMs = 250) {
  const [time, setTime] = useState(clock);
  useEffect(() => {
    const timer = setInterval(() => setTime(clock()), everyMs);
    return () => clearInterval(timer);
  }, []);
  return time;
}

/** Pressing a button may replace the view and lose the focus; then move it to the new heading, for keyboard users. */
export function useFocusAfterChange(key) {
  const heading = useRef(null);
  const previous = useRef(key);
  useEffect(() => {
    const isLost = document.activeElement === null || document.activeElement === document.body;
    if (previous.current !== key && isLost) heading.current?.focus({ preventScroll: true });
    previous.current = key;
  }, [key]);
  return heading;
}

/** Hooks: configuration, the sale, the purchase and the clock. */
import { buyerOf, findMine, hasBegun, joinAndBuy, liveReservation, paidOrders, watchSale, watchTabs } from "../holdfast.js";
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

/** So long a tab waits for another one that is logging in. */
const LOGIN_WITHIN_MS = 5_000;

/**
 * One tab after the other: a login that makes up guests would give two tabs that ask at once two buyers, and the cookie of
 * one of them to both.
 */
export async function fetchToken(url) {
  if (!url) throw new Error("HOLDFAST_BUYER_TOKEN_URL is not set");
  const signal = AbortSignal.timeout(LOGIN_WITHIN_MS);
  let answered;
  const fetchOnce = () => (answered ??= fetchTokenNow(url));
  try {
    return await navigator.locks.request("holdfast:1:login", { signal }, fetchOnce);
  } catch {
    return fetchOnce(); // No Web Locks, or the other tab takes too long.
  }
}

async function fetchTokenNow(url) {
  const response = await fetch(url, { credentials: "include", cache: "no-store" });
  if (!response.ok) throw new Error(`the login responded with ${response.status}`);
  return (await response.json()).token;
}

/** The current purchase, if any: started by a click, or resumed after a reload. */
export function usePurchase(saleId, config) {
  const [state, setState] = useState(null);
  const buying = useRef(null);
  const begin = (reservation = null) => {
    buying.current?.stop();
    const passOnly = (sale) => returnTarget(sale, config.return_origins ?? []) !== null;
    const token = () => fetchToken(config.token_url);
    buying.current = joinAndBuy(saleId, { token, reservation, passOnly, onState: setState });
    setState(buying.current.state);
  };
  const end = () => {
    buying.current?.stop();
    buying.current = null;
    setState(null);
  };
  useEffect(() => {
    if (config === null) return;
    const beginOnce = (reservation) => buying.current === null && begin(reservation);
    // Fetch a token only if there is a purchase to resume. It may belong to another buyer of this browser.
    const resume = (hasOne, reservation = null) => {
      const beginIfOurs = (token) => hasOne(buyerOf(token)) && beginOnce(reservation);
      if (buying.current === null) fetchToken(config.token_url).then(beginIfOurs, () => beginOnce(reservation));
    };
    const stopWatching = watchTabs(saleId, ({ buyer, reservation }) => {
      if (reservation) resume((ours) => ours === buyer, reservation);
    });
    if (hasBegun(saleId)) resume((ours) => hasBegun(saleId, ours));
    return stopWatching;
  }, [config]);
  return { state, begin: () => begin(), show: begin, end, buying: buying.current, isWatching: state === null || NOT_POLLING.has(state.name) };
}

/**
 * What this buyer began on another device, or before the storage was cleared: `{reservation, orders, place}`, or null.
 * Asked once, after the sale has opened, and spread over a second: many open the page in the same moment.
 */
export function useMine(saleId, config, isOpened, isIdle) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    if (!config?.token_url || !isOpened || !isIdle || hasBegun(saleId)) return;
    const look = async () => {
      const mine = await findMine(saleId, { token: () => fetchToken(config.token_url) });
      const [reservation, orders, place] = [liveReservation(mine), paidOrders(mine), mine.place ?? null];
      if (reservation || orders.length > 0 || place) setFound({ reservation, orders, place });
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

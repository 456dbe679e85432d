/**
 * Sleeping, jitter and polling delays for a page that may be hidden, suspended or offline.
 *
 * Browsers delay the timers of hidden pages. A sleep therefore ends early when the page becomes visible or the network
 * returns, but never before MIN_DELAY_MS, so that switching tabs cannot cause a burst of requests.
 */
const MIN_DELAY_MS = 1_000;
const FIRST_RETRY_MS = 700;
const MAX_RETRY_MS = 15_000;
/** Clients that wait for the opening poll within this time after it. */
const OPENING_JITTER_MS = 500;

export function sleep(ms, signal, { wakeEarly = true } = {}) {
  const startedAt = Date.now();
  return new Promise((resolve) => {
    const timer = setTimeout(end, ms);
    const removeListeners = wakeEarly ? onWake(wake) : () => {};
    signal.addEventListener("abort", end);

    function wake() {
      if (document.visibilityState === "hidden") return;
      clearTimeout(timer);
      setTimeout(end, Math.max(MIN_DELAY_MS - (Date.now() - startedAt), 0));
    }

    function end() {
      clearTimeout(timer);
      removeListeners();
      signal.removeEventListener("abort", end);
      resolve();
    }
  });
}

function onWake(listener) {
  document.addEventListener("visibilitychange", listener);
  globalThis.addEventListener("online", listener);
  globalThis.addEventListener("pageshow", listener);
  return () => {
    document.removeEventListener("visibilitychange", listener);
    globalThis.removeEventListener("online", listener);
    globalThis.removeEventListener("pageshow", listener);
  };
}

/** `ms` plus up to half of it, so that clients do not poll in lockstep. */
export const withJitter = (ms, random = Math.random) => ms * (1 + random() / 2);

/** Exponential backoff; half of each delay is random. */
export function retryDelay(attempt, random = Math.random) {
  return Math.min(FIRST_RETRY_MS * 2 ** attempt, MAX_RETRY_MS) * (0.5 + random() / 2);
}

/** The delay before the next `GET …/now`: what the server asks for, cut short if the sale opens sooner. */
export function nextPollDelay(now, serverNow, random = Math.random) {
  const requested = withJitter(now.next_poll_ms, random);
  const left = Date.parse(now.opens_at) - serverNow;
  return now.state === "upcoming" ? Math.min(requested, Math.max(left, 200) + random() * OPENING_JITTER_MS) : requested;
}

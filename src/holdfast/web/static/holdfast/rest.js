/**
 * Waiting, in a page that may be hidden, put to sleep, or cut off from the network.
 *
 * Timers of a hidden or sleeping page come late. Whoever comes back wants to know at once how things stand, so coming
 * back ends the wait; so does the network's return. Looks are never closer together than `LEAST_MS` for all that.
 */
const LEAST_MS = 1_000;
/** Those who wait for the opening look within this long after it. */
const SPREAD_MS = 500;

export function rest(ms, signal, { wakes = true } = {}) {
  const begun = Date.now();
  return new Promise((resolve) => {
    const timer = setTimeout(end, ms);
    const unlisten = wakes ? listen(wake) : () => {};
    signal.addEventListener("abort", end);

    function wake() {
      if (document.visibilityState === "hidden") return;
      clearTimeout(timer);
      setTimeout(end, Math.max(LEAST_MS - (Date.now() - begun), 0));
    }

    function end() {
      clearTimeout(timer);
      unlisten();
      signal.removeEventListener("abort", end);
      resolve();
    }
  });
}

function listen(wake) {
  document.addEventListener("visibilitychange", wake);
  globalThis.addEventListener("online", wake);
  globalThis.addEventListener("pageshow", wake);
  return () => {
    document.removeEventListener("visibilitychange", wake);
    globalThis.removeEventListener("online", wake);
    globalThis.removeEventListener("pageshow", wake);
  };
}

/** That long, and a random part of it more, so that a crowd does not come at once. */
export const jittered = (ms, random = Math.random) => ms * (1 + random() / 2);

/** How long to wait before the next look: as `now` wants it, and not past the opening by more than a moment. */
export function untilNextLook(now, serverNow, random = Math.random) {
  const wanted = jittered(now.next_poll_ms, random);
  const left = Date.parse(now.opens_at) - serverNow;
  return now.state === "upcoming" ? Math.min(wanted, Math.max(left, 200) + random() * SPREAD_MS) : wanted;
}

// Observable values, and polling.
import { useEffect, useState } from "./html.mjs";

export function createStore(initial) {
  let value = initial;
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      value = typeof next === "function" ? next(value) : next;
      for (const listener of listeners) listener(value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useStore(store) {
  const [value, setValue] = useState(store.get());
  useEffect(() => {
    setValue(store.get());
    return store.subscribe(setValue);
  }, [store]);
  return value;
}

/** Calls `work` now and every `ms`, one call at a time, until the view is unmounted. */
export function useEvery(ms, work, dependencies = []) {
  useEffect(() => {
    let timer = 0;
    let isUnmounted = false;
    const run = async () => {
      const startedAt = Date.now();
      await work();
      if (!isUnmounted) timer = setTimeout(run, Math.max(ms - (Date.now() - startedAt), 0));
    };
    run();
    return () => {
      isUnmounted = true;
      clearTimeout(timer);
    };
  }, dependencies);
}

// A value that views follow.
import { useEffect, useState } from "./html.mjs";

export function createStore(first) {
  let value = first;
  const followers = new Set();
  return {
    get: () => value,
    set(next) {
      value = typeof next === "function" ? next(value) : next;
      for (const follower of followers) follower(value);
    },
    follow(follower) {
      followers.add(follower);
      return () => followers.delete(follower);
    },
  };
}

export function useStore(store) {
  const [value, setValue] = useState(store.get());
  useEffect(() => {
    setValue(store.get());
    return store.follow(setValue);
  }, [store]);
  return value;
}

/** Calls `work` now and every so often, one call at a time, until the view is left. */
export function useEvery(ms, work, dependencies = []) {
  useEffect(() => {
    let timer = 0;
    let left = false;
    const again = async () => {
      const began = Date.now();
      await work();
      if (!left) timer = setTimeout(again, Math.max(ms - (Date.now() - began), 0));
    };
    again();
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, dependencies);
}

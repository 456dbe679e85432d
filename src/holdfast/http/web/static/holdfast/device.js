/**
 * A random token of this browser, for limits per device and the shop's risk service. It is derived from nothing, is sent
 * only when a visitor joins a queue, and goes away with `resetDevice()` or with the site's data.
 */
const NAME = "holdfast:1:device";
let inMemory = null;

export function deviceToken() {
  try {
    inMemory = globalThis.localStorage.getItem(NAME) ?? inMemory;
    inMemory ??= newToken();
    globalThis.localStorage.setItem(NAME, inMemory);
  } catch {
    inMemory ??= newToken(); // Blocked by the visitor's settings: it lasts as long as the page.
  }
  return inMemory;
}

/** The next join has another token. */
export function resetDevice() {
  inMemory = null;
  try {
    globalThis.localStorage.removeItem(NAME);
  } catch {
    // If it cannot be removed, it cannot be read either.
  }
}

/** 128 random bits. */
const newToken = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

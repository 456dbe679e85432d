/**
 * Finds the number that a challenge asks for, away from the page's own thread (ALTCHA, PBKDF2).
 *
 * The key of a number is PBKDF2 of the nonce, followed by the number in four bytes, with the challenge's salt; sought is
 * the number whose key begins with `keyPrefix`. A few are under way at once, so that the browser can use its threads.
 */
const TOGETHER = 8;
const REPORT_EVERY_MS = 80;

const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const hexOf = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

async function keyOf(parameters, nonce, salt, number) {
  const password = new Uint8Array(nonce.length + 4);
  password.set(nonce);
  new DataView(password.buffer).setUint32(nonce.length, number);
  const key = await crypto.subtle.importKey("raw", password, "PBKDF2", false, ["deriveBits"]);
  const hash = parameters.algorithm.split("/")[1];
  const how = { name: "PBKDF2", hash, salt, iterations: parameters.cost };
  return hexOf(await crypto.subtle.deriveBits(how, key, parameters.keyLength * 8));
}

async function solve({ parameters }) {
  const nonce = bytes(parameters.nonce);
  const salt = bytes(parameters.salt);
  let reported = 0;
  for (let first = 0; ; first += TOGETHER) {
    const numbers = Array.from({ length: TOGETHER }, (_, index) => first + index);
    const keys = await Promise.all(numbers.map((number) => keyOf(parameters, nonce, salt, number)));
    const index = keys.findIndex((key) => key.startsWith(parameters.keyPrefix));
    if (index >= 0) return { counter: first + index, derivedKey: keys[index] };
    if (performance.now() - reported > REPORT_EVERY_MS) {
      reported = performance.now();
      postMessage({ attempts: first + TOGETHER });
    }
  }
}

onmessage = async ({ data }) => {
  try {
    postMessage({ solution: await solve(data) });
  } catch (error) {
    postMessage({ failed: String(error) });
  }
};

/**
 * Solves an ALTCHA challenge (PBKDF2) off the page's main thread.
 *
 * A number's key is PBKDF2 over the nonce followed by the number in four bytes, with the challenge's salt. The solution is
 * the first number whose key starts with `keyPrefix`. Several are derived concurrently to use the browser's threads.
 */
const BATCH = 8;
const REPORT_EVERY_MS = 80;

const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const hexOf = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

async function keyOf(parameters, nonce, salt, number) {
  const password = new Uint8Array(nonce.length + 4);
  password.set(nonce);
  new DataView(password.buffer).setUint32(nonce.length, number);
  const key = await crypto.subtle.importKey("raw", password, "PBKDF2", false, ["deriveBits"]);
  const hash = parameters.algorithm.split("/")[1];
  const algorithm = { name: "PBKDF2", hash, salt, iterations: parameters.cost };
  return hexOf(await crypto.subtle.deriveBits(algorithm, key, parameters.keyLength * 8));
}

async function solve({ parameters }) {
  const nonce = bytesOf(parameters.nonce);
  const salt = bytesOf(parameters.salt);
  let reportedAt = 0;
  for (let first = 0; ; first += BATCH) {
    const numbers = Array.from({ length: BATCH }, (_, index) => first + index);
    const keys = await Promise.all(numbers.map((number) => keyOf(parameters, nonce, salt, number)));
    const index = keys.findIndex((key) => key.startsWith(parameters.keyPrefix));
    if (index >= 0) return { counter: first + index, derivedKey: keys[index] };
    if (performance.now() - reportedAt > REPORT_EVERY_MS) {
      reportedAt = performance.now();
      postMessage({ attempts: first + BATCH });
    }
  }
}

onmessage = async ({ data }) => {
  try {
    postMessage({ solution: await solve(data) });
  } catch (error) {
    postMessage({ error: String(error) });
  }
};

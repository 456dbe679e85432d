/** Proof of work: takes a challenge, returns the `proof` for `POST …/queue`, or for `…/purchase` where there is no queue. */
import * as paths from "../paths.mjs";

export const PROOF_ATTEMPTS = 3;
const STALE_PROOF = new Set(["proof_expired", "proof_spent", "proof_invalid", "proof_required"]);

/** Whether a new challenge may help. */
export const isStaleProof = (error) => STALE_PROOF.has(error.reason);

/** By the page's captcha, if it has one; the last attempt is a puzzle, which is accepted when captchas cannot be verified. */
export async function prove(session, attempt, level = 1) {
  const isAsked = session.state.sale.proof_of_work || level > 1;
  const token = session.captcha && isAsked && attempt < PROOF_ATTEMPTS ? await captchaToken(session) : null;
  return token ? `captcha:${token}` : solveChallenge(session, level);
}

async function captchaToken(session) {
  try {
    return await session.captcha();
  } catch {
    return null;
  }
}

/** Null if the sale asks for none. `level` 2: the harder challenge, which `proof_required` may ask for. */
async function solveChallenge(session, level = 1) {
  const query = level === 1 ? "" : `?level=${level}`;
  const { status, body: challenge } = await session.request("GET", paths.challenge(session.saleId) + query);
  if (status === 204) return null;
  session.dispatch({ to: "proving", progress: 0 });
  const proof = await solve(challenge, {
    cost: session.state.sale.proof_of_work?.cost ?? 1,
    onProgress: (progress) => session.dispatch({ from: "proving", progress }),
    signal: session.signal,
  });
  session.dispatch({ from: "proving", progress: 1 });
  return proof;
}

/**
 * Estimated progress. Nobody knows in advance how many attempts a challenge takes, only its usual cost; this approaches 1
 * without reaching it.
 */
export const progressOf = (attempts, cost) => 1 - Math.exp((-1.8 * attempts) / Math.max(cost, 1));

export function solve(challenge, { cost, onProgress, signal }) {
  const worker = startWorker(new URL("./proof-worker.js", import.meta.url));
  return new Promise((resolve, reject) => {
    const fail = (cause) => reject(new Error(`proof of work failed: ${cause}`));
    signal.addEventListener("abort", () => fail("aborted"), { once: true });
    worker.onerror = (event) => fail(event.message);
    worker.onmessage = ({ data }) => {
      if (data.error) fail(data.error);
      else if (data.solution) resolve(btoa(JSON.stringify({ challenge, solution: data.solution })));
      else onProgress(progressOf(data.attempts, cost));
    };
    worker.postMessage(challenge);
  }).finally(() => worker.terminate());
}

/** A browser starts workers of the page's own origin only. From another one it is imported by a worker that is. */
function startWorker(url) {
  if (url.origin === location.origin) return new Worker(url, { type: "module" });
  const source = URL.createObjectURL(new Blob([`import ${JSON.stringify(url.href)};`], { type: "text/javascript" }));
  const worker = new Worker(source, { type: "module" });
  URL.revokeObjectURL(source);
  return worker;
}

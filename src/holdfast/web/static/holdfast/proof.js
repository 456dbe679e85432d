/** Proof of work: a challenge in, the text that the join wants out. */

/**
 * How far it may be. Nobody is told how many attempts it takes, only what it costs when nobody crowds; so this nears the
 * end and does not reach it before the number is found.
 */
export const progressOf = (attempts, cost) => 1 - Math.exp((-1.8 * attempts) / Math.max(cost, 1));

export function solve(challenge, { cost, onProgress, signal }) {
  const worker = new Worker(new URL("./proof-worker.js", import.meta.url), { type: "module" });
  return new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(`the proof of work failed: ${why}`));
    signal.addEventListener("abort", () => fail("stopped"), { once: true });
    worker.onerror = (event) => fail(event.message);
    worker.onmessage = ({ data }) => {
      if (data.failed) fail(data.failed);
      else if (data.solution) resolve(btoa(JSON.stringify({ challenge, solution: data.solution })));
      else onProgress(progressOf(data.attempts, cost));
    };
    worker.postMessage(challenge);
  }).finally(() => worker.terminate());
}

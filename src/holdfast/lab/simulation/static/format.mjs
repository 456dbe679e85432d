// Formats numbers and states.

const whole = new Intl.NumberFormat("en");

export const count = (value) => whole.format(value);
export const seconds = (value) => `${value.toFixed(1)} s`;
export const plural = (value, one, many) => `${count(value)} ${value === 1 ? one : many}`;

export function milliseconds(value) {
  if (value === null) return "–";
  return value < 1000 ? `${Math.max(1, Math.round(value))} ms` : seconds(value / 1000);
}

export const PHASES = {
  idle: "Ready. Press Start.",
  starting: "Starting a fresh server with an empty ledger…",
  selling: "Buyers are arriving",
  settling: "Everyone has come; the last payments are settling",
  verifying: "Server stopped; holdfast verify is reading the ledger…",
  done: "Done",
  stopped: "Stopped",
  failed: "The run failed",
};

const RUNNING = ["starting", "selling", "settling", "verifying"];
export const isRunning = (snapshot) => RUNNING.includes(snapshot.phase);
/** Whether faults can be triggered. */
export const isSelling = (snapshot) => ["selling", "settling"].includes(snapshot.phase);
export const usesRedis = (snapshot) => snapshot.options.engine === "redis";

/**
 * Waiting for the result of a payment: server-sent events, with polling as the fallback.
 *
 * The stream is read with fetch because EventSource cannot send an Authorization header.
 */
import { AbortedError } from "./api.js";
import { sleep, withJitter } from "./backoff.js";
import { fetchReservation } from "./reservation.js";
import * as paths from "../paths.mjs";

const POLL_MS = 1_500;
/** The server sends a comment every ten seconds. After this long without one the connection is dead or buffered. */
const IDLE_TIMEOUT_MS = 25_000;

export async function waitForSettlement(session, reservation) {
  let lastEventId = "";
  for (;;) {
    lastEventId = await readStream(session, reservation, lastEventId);
    if (session.signal.aborted) throw new AbortedError();
    const current = { ...reservation, ...(await fetchReservation(session, reservation)) };
    if (current.status !== "settling") return current;
    await sleep(withJitter(POLL_MS), session.signal);
  }
}

/** Reads until a final event or the end of the stream; returns the id of the last event. */
async function readStream(session, { reservation_id: id }, lastEventId) {
  const idle = new AbortController();
  let timer;
  const resetTimer = () => {
    clearTimeout(timer);
    timer = setTimeout(() => idle.abort(), IDLE_TIMEOUT_MS);
  };
  resetTimer();
  try {
    const response = await session.openStream(paths.events(id), lastEventId, idle.signal);
    if (response.status !== 200) return lastEventId;
    for await (const event of eventsIn(response.body, resetTimer)) {
      lastEventId = event.id || lastEventId;
      if (isFinal(event.type)) break;
    }
  } catch {
    // The caller polls the reservation next, which retries if the network is down.
  } finally {
    clearTimeout(timer);
    idle.abort();
  }
  return lastEventId;
}

/** After `reopened` the payment was declined, and the buyer may try again. */
const isFinal = (type) => /^reservation\.(confirmed|failed|cancelled|expired|reopened)$/.test(type);

async function* eventsIn(body, onData) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onData();
      const parts = (buffer + value).split("\n\n");
      buffer = parts.pop();
      yield* parts.map(parseEvent).filter((event) => event.type);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export function parseEvent(text) {
  const fields = Object.fromEntries(
    text
      .split("\n")
      .filter((line) => line && !line.startsWith(":"))
      .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]),
  );
  return { type: fields.event ?? "", id: fields.id ?? "", data: fields.data ?? "" };
}

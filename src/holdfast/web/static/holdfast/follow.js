/**
 * What becomes of a payment, as it happens. Server-sent events, read with fetch because EventSource cannot say who asks;
 * where a stream cannot be had, or ends, the reservation itself is asked.
 */
import { Stopped } from "./asking.js";
import { show } from "./reservation.js";
import { jittered, rest } from "./rest.js";

const POLL_MS = 1_500;
/** The server says something every ten seconds. Whoever hears nothing for longer is on a line that is dead, or kept. */
const SILENCE_MS = 25_000;

export async function follow(visit, reservation) {
  let last = "";
  for (;;) {
    last = await listen(visit, reservation, last);
    if (visit.signal.aborted) throw new Stopped();
    const seen = { ...reservation, ...(await show(visit, reservation)) };
    if (seen.status !== "settling" && seen.status !== "active") return seen;
    await rest(jittered(POLL_MS), visit.signal);
  }
}

/** Returns when something ended, or when no more can be heard; gives the id of the last event. */
async function listen(visit, { reservation_id: id }, last) {
  const silence = new AbortController();
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE_MS);
  };
  heard();
  try {
    const answer = await visit.stream(`/v1/reservations/${id}/events`, last, silence.signal);
    if (answer.status !== 200) return last;
    for await (const event of eventsIn(answer.body, heard)) {
      last = event.id || last;
      if (isEnd(event.type)) break;
    }
  } catch {
    // The reservation is asked next, and waits for the network if that is what was lost.
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
  return last;
}

const isEnd = (type) => /^reservation\.(confirmed|failed|cancelled|expired)$/.test(type);

async function* eventsIn(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
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

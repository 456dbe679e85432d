/**
 * The server's clock, estimated from the `Date` header of its responses.
 *
 * Deadlines are in server time and visitors' clocks are often wrong. `Date` is truncated to the second, so each response
 * bounds the offset between the clocks from both sides, and several responses narrow it. A response that contradicts the
 * bounds means that a clock was changed: start again from that response.
 */
export class ServerClock {
  #min = -Infinity;
  #max = Infinity;
  #localNow;

  constructor(localNow = Date.now) {
    this.#localNow = localNow;
  }

  /** `date` is the header's value; `sentAt` and `receivedAt` are local times in ms. */
  observe(date, sentAt, receivedAt) {
    const serverTime = Date.parse(date);
    if (Number.isNaN(serverTime)) return;
    const min = serverTime - receivedAt;
    const max = serverTime + 1000 - sentAt;
    this.#min = Math.max(this.#min, min);
    this.#max = Math.min(this.#max, max);
    if (this.#min > this.#max) [this.#min, this.#max] = [min, max];
  }

  /** How far the server's clock is ahead of the local one, in ms. */
  get offset() {
    return Number.isFinite(this.#min) ? (this.#min + this.#max) / 2 : 0;
  }

  now() {
    return this.#localNow() + this.offset;
  }
}

/**
 * The server's clock, as far as its answers tell.
 *
 * A deadline is by the server's clock, and people's clocks are wrong. Each answer says `Date`, cut to the second: so the
 * server's time, less ours, lies between two bounds. Several answers narrow them down; one that contradicts the others
 * means that somebody set a clock, and everything begins anew.
 */
export class ServerClock {
  #least = -Infinity;
  #most = Infinity;
  #ours;

  constructor(ours = Date.now) {
    this.#ours = ours;
  }

  /** `date` as in the header; the rest are our times, in milliseconds. */
  note(date, sentAt, receivedAt) {
    const told = Date.parse(date);
    if (Number.isNaN(told)) return;
    const least = told - receivedAt;
    const most = told + 1000 - sentAt;
    this.#least = Math.max(this.#least, least);
    this.#most = Math.min(this.#most, most);
    if (this.#least > this.#most) [this.#least, this.#most] = [least, most];
  }

  /** How far the server's clock is ahead of ours. */
  get offset() {
    return Number.isFinite(this.#least) ? (this.#least + this.#most) / 2 : 0;
  }

  now() {
    return this.#ours() + this.offset;
  }
}

// The time of the service. A viewer's clock may be hours off; offsets, positions and telemetry go by the clock of the service.

/** Seconds between two estimates that are the same clock: `Date` has whole seconds, and answers take a while. */
const TOLERANCE = 2;
/** Share of a new estimate in the average. */
const WEIGHT = 1 / 8;

export class Clock {
  /** @type {number} */
  #offset;
  #known = false;

  /** @param {Clock} [other] whose difference it begins with */
  constructor(other) {
    this.#offset = other?.offset ?? 0;
  }

  /** Seconds that the clock of the service is ahead of this machine's. */
  get offset() {
    return this.#offset;
  }

  /** Unix seconds of the service. */
  now() {
    return Date.now() / 1000 + this.#offset;
  }

  /**
   * Takes the time of an answer.
   * @param {number} serverTime Unix seconds
   * @param {number} sent Unix seconds of this machine, when the request was sent
   */
  observe(serverTime, sent) {
    const here = Date.now() / 1000;
    // A clock that was set while the request was under way says nothing.
    if (!Number.isFinite(serverTime) || here < sent) return;
    // Whole seconds are half a second late on average.
    const estimate = serverTime + 0.5 - (sent + here) / 2;
    const jumped = Math.abs(estimate - this.#offset) > TOLERANCE + (here - sent) / 2;
    if (jumped || !this.#known) this.#offset = estimate;
    else this.#offset += (estimate - this.#offset) * WEIGHT;
    this.#known = true;
  }
}

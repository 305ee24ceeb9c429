// When heartbeats are sent: at once, then at the interval from one to the next, whether an answer is slow or does not come.

import { after } from './timer.js';

/** Seconds between two heartbeats at least, also if the viewer seeks around. */
const LEAST = 2;
/** Milliseconds that a timer may be late without the next heartbeat being late too. */
const LATE = 1_000;

export class Heartbeats {
  #send;
  /** Seconds; the service may change it with each answer. */
  interval;
  #due = 0;
  #last = -Infinity;
  #running = false;
  /** @type {AbortController | undefined} */
  #underway;
  #cancel = () => {};

  /**
   * @param {number} interval seconds
   * @param {(signal: AbortSignal) => Promise<number | undefined>} send resolves with the seconds that the service wants to be left
   * alone; the signal aborts when the next one is sent
   */
  constructor(interval, send) {
    this.interval = interval;
    this.#send = send;
  }

  start() {
    if (this.#running) return;
    this.#running = true;
    this.#due = performance.now();
    this.#beat();
  }

  /** One more, as the interface allows after a seek. */
  once() {
    if (!this.#running) return;
    this.#due = Math.max(performance.now(), this.#last + LEAST * 1000);
    this.#arm();
  }

  stop() {
    this.#running = false;
    this.#underway?.abort();
    this.#cancel();
  }

  #arm() {
    this.#cancel();
    if (this.#running) this.#cancel = after((this.#due - performance.now()) / 1000, () => this.#beat());
  }

  #beat() {
    if (!this.#running) return;
    const now = performance.now();
    // After a sleep the missed ones are not made up for.
    this.#due = (now - this.#due > LATE ? now : this.#due) + this.interval * 1000;
    this.#arm();
    // The one before may wait for the viewer to log in, or for an answer about a position that the viewer has left.
    this.#underway?.abort();
    const { signal } = (this.#underway = new AbortController());
    this.#last = now;
    void this.#send(signal).then((seconds) => {
      if (!seconds || signal.aborted) return;
      this.#due = Math.max(this.#due, performance.now() + seconds * 1000);
      this.#arm();
    });
  }
}

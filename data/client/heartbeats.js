// When heartbeats are sent: at once, then at the interval from one to the next, however slow an answer is.

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
  #underway = false;
  #cancel = () => {};

  /**
   * @param {number} interval seconds
   * @param {() => Promise<number | undefined>} send resolves with the seconds that the service wants to be left alone
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
    // One may be waiting for the viewer to log in.
    if (this.#underway) return;
    this.#underway = true;
    this.#last = now;
    void this.#send()
      .then((seconds) => {
        if (!seconds) return;
        this.#due = Math.max(this.#due, performance.now() + seconds * 1000);
        this.#arm();
      })
      .finally(() => (this.#underway = false));
  }
}

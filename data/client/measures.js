// What telemetry says about one playback: how long it took to start, waits, pauses, bitrates, failures, and its end. The actions are
// those that docs/quality.md counts.

/** @typedef {import('./telemetry.js').EventContext} EventContext */

export class Measures {
  #telemetry;
  #facts;
  #asked = performance.now();
  /** @type {'asked' | 'started' | 'stopped'} */
  #stage = 'asked';
  #paused = false;
  #bitrate = 0;
  /** When the wait began. @type {number | undefined} */
  #waiting;

  /**
   * @param {import('./telemetry.js').Telemetry} telemetry
   * @param {() => EventContext} facts of each event: title, session, position
   */
  constructor(telemetry, facts) {
    this.#telemetry = telemetry;
    this.#facts = facts;
    this.#report('playback_request');
  }

  /** The first picture. */
  started() {
    if (this.#stage !== 'asked') return;
    this.#stage = 'started';
    const duration = Math.round(performance.now() - this.#asked);
    this.#report('playback_started', { startup_duration: duration });
    this.#report('playback_buffering', { playback_buffering_type: 'initial', duration });
  }

  /**
   * @param {boolean} paused
   * @param {string} [held] why, if not by the viewer
   */
  paused(paused, held) {
    if (this.#stage !== 'started' || paused === this.#paused) return;
    this.#paused = paused;
    if (paused) this.#waiting = undefined;
    this.#report(paused ? 'playback_paused' : 'playback_resumed', held ? { playback_held: held } : {});
  }

  /** @param {boolean} waiting */
  buffering(waiting) {
    if (this.#stage !== 'started' || this.#paused) return;
    if (waiting) this.#waiting ??= performance.now();
    else if (this.#waiting !== undefined) {
      const duration = Math.round(performance.now() - this.#waiting);
      this.#waiting = undefined;
      this.#report('playback_buffering', { playback_buffering_type: 'rebuffering', duration });
    }
  }

  /** A wait that a seek causes is none. */
  seeking() {
    this.#waiting = undefined;
  }

  /** @param {number} bitrate bits per second */
  bitrate(bitrate) {
    if (this.#stage !== 'started' || !bitrate || bitrate === this.#bitrate) return;
    const first = this.#bitrate === 0;
    this.#bitrate = bitrate;
    if (!first) this.#report('playback_bitrate_changed');
  }

  /** @param {import('./error.js').PlaygateError} error */
  failed({ code, status }) {
    this.#report('playback_error', { error_code: code, error_status: status || undefined });
  }

  stopped() {
    if (this.#stage === 'started') this.#report('playback_stopped');
    this.#stage = 'stopped';
  }

  /**
   * @param {string} action
   * @param {EventContext} [context]
   */
  #report(action, context = {}) {
    this.#telemetry.report(action, { ...this.#facts(), playback_bitrate: this.#bitrate || undefined, ...context });
  }
}

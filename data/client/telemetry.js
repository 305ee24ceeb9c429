// What happened in the player: events are numbered, collected, sent some at a time, and kept and sent again after a failure.

import { PlaygateError } from './error.js';
import { NEVER, backOff } from './retry.js';

/**
 * @typedef {Record<string, string | number | boolean | undefined>} EventContext `duration` is in milliseconds
 *
 * @typedef {object} TelemetryEvent
 * @property {number} timestamp Unix milliseconds
 * @property {string} source
 * @property {string} component
 * @property {string} action
 * @property {number} seqId
 * @property {EventContext} context
 * @property {EventContext} [extra]
 */

const PATH = 'api/tracker/v1/telemetry-events';
const BATCH = 100;
/** Events that are kept while the service is away: three hours of play. The oldest go first, which the gap in `seqId` shows. */
const KEPT = 1_000;
const EVERY_SECONDS = 10;
/** Milliseconds; a clock that goes back further was set. */
const CORRECTION = 2_000;
/** Browsers let 64 KiB outlive a page, of all requests together. */
const CLOSING_BYTES = 48 * 1024;

export class Telemetry {
  #login;
  #clock;
  #device;
  #app;
  /** @type {TelemetryEvent[]} */
  #queue = [];
  #numbers = 0;
  /** When the last event was, in Unix milliseconds. */
  #last = -Infinity;
  #failures = 0;
  #batch = BATCH;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {Promise<void> | null} */
  #sending = null;
  /** Events that were sent because the page may close. @type {Set<TelemetryEvent>} */
  #closing = new Set();
  /** Whose events these are. @type {string | undefined} */
  #userId;
  #closes = () => this.sendBeforeClose();
  #hidden = () => document.visibilityState === 'hidden' && this.sendBeforeClose();

  /**
   * @param {import('./login.js').Login} login
   * @param {import('./clock.js').Clock} clock
   * @param {import('./client.js').DeviceOptions} device
   * @param {{name?: string, version?: string}} app
   */
  constructor(login, clock, device, app) {
    this.#login = login;
    this.#clock = clock;
    this.#device = device;
    this.#app = app;
    // A page on a phone may be ended while it is hidden, without another event.
    globalThis.document?.addEventListener('visibilitychange', this.#hidden);
    globalThis.addEventListener?.('pagehide', this.#closes);
    login.addEventListener('change', () => this.#changeUser());
  }

  /** Events that wait. */
  get waiting() {
    return this.#queue.length;
  }

  /**
   * @param {string} action such as `playback_started`; docs/quality.md says which ones count
   * @param {EventContext} [context]
   * @param {{component?: string, source?: string, extra?: EventContext}} [more]
   */
  report(action, context = {}, { component = 'playgate-client/session', source = 'APP_ACTION', extra } = {}) {
    this.#userId ??= this.#login.user?.userId;
    const now = Math.round(this.#clock.now() * 1000);
    // An estimate of the clock that is a little better must not turn the order of events round.
    const timestamp = this.#last - now < CORRECTION ? Math.max(this.#last, now) : now;
    this.#last = timestamp;
    this.#queue.push({ timestamp, source, component, action, seqId: (this.#numbers += 1), context, extra });
    this.#queue.splice(0, this.#queue.length - KEPT);
    if (this.#queue.length >= BATCH) void this.flush();
    else this.#arm(EVERY_SECONDS);
  }

  /** Sends what waits. It never fails: what could not be sent is sent later. */
  flush() {
    this.#sending ??= this.#send().finally(() => (this.#sending = null));
    return this.#sending;
  }

  /** Sends what waits in one request that outlives the page. */
  sendBeforeClose() {
    if (!this.#login.user) return;
    const events = /** @type {TelemetryEvent[]} */ ([]);
    let bytes = 0;
    for (const event of this.#queue) {
      bytes += new TextEncoder().encode(JSON.stringify(event)).length + 500; // and what the device adds
      if (bytes > CLOSING_BYTES) break;
      if (!this.#closing.has(event)) events.push(event);
    }
    if (events.length === 0) return;
    for (const event of events) this.#closing.add(event);
    // What was under way may be cancelled with the page, and is sent once more; the service drops duplicates.
    this.#post(events, true)
      .then(
        () => this.#remove(events),
        () => this.#arm(EVERY_SECONDS), // the page lives on, and sends them again
      )
      .finally(() => events.forEach((event) => this.#closing.delete(event)));
  }

  /** Ends timers and listeners; what waits is dropped. */
  close() {
    clearTimeout(this.#timer);
    this.#queue = [];
    globalThis.document?.removeEventListener('visibilitychange', this.#hidden);
    globalThis.removeEventListener?.('pagehide', this.#closes);
  }

  async #send() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // Events alone are no reason to show a log-in.
    while (this.#queue.length > 0 && this.#login.user) {
      const events = this.#queue.slice(0, this.#batch);
      try {
        await this.#post(events, false);
        this.#remove(events); // also what the service has rejected: it would do so again
        this.#failures = 0;
        this.#batch = BATCH;
      } catch (error) {
        if (!this.#goesOn(/** @type {PlaygateError} */ (error), events)) return;
      }
    }
  }

  /**
   * @param {PlaygateError} error
   * @param {TelemetryEvent[]} events
   * @returns {boolean} whether to send the next batch at once
   */
  #goesOn({ status, code, retryAfter }, events) {
    if (status === 413 && events.length > 1) {
      this.#batch = Math.ceil(events.length / 2);
      return true;
    }
    if (code === 'NOT_LOGGED_IN' || code === 'USER_TOKEN_INVALID') return false; // until somebody is
    if (status === 0 || status === 429 || status >= 500) {
      this.#failures += 1;
      this.#arm(Math.max(retryAfter ?? 0, EVERY_SECONDS, backOff(this.#failures)));
      return false;
    }
    this.#remove(events);
    return true;
  }

  /**
   * @param {TelemetryEvent[]} events
   * @param {boolean} keepalive
   */
  async #post(events, keepalive) {
    const { platform, type, model } = this.#device;
    const { name, version } = this.#app;
    const device = { device_platform: platform, device_type: type, device_model: model, device_id: await this.#login.deviceId };
    const body = events.map(({ context, extra, ...event }) => ({
      ...event,
      context: { ...device, app_version: version, ...context },
      extra: { app_name: name, ...extra },
    }));
    await this.#login.request('POST', PATH, { body, keepalive, retry: NEVER });
  }

  /** @param {TelemetryEvent[]} events */
  #remove(events) {
    const gone = new Set(events);
    this.#queue = this.#queue.filter((event) => !gone.has(event));
  }

  /** @param {number} seconds */
  #arm(seconds) {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.flush();
    }, seconds * 1000);
  }

  /** What one user watched is not reported as another's. */
  #changeUser() {
    const id = this.#login.user?.userId;
    if (id && this.#userId && id !== this.#userId) this.#queue = [];
    if (id) this.#userId = id;
    if (id && this.#queue.length > 0) this.#arm(EVERY_SECONDS);
  }
}

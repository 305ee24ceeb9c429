// What a session knows about the one thing that it plays: addresses, program, position, and whether it is held.

import { Clock } from './clock.js';
import { Heartbeats } from './heartbeats.js';
import { pause } from './retry.js';
import { after } from './timer.js';
import { HEARTBEAT_WITHIN, START_TIMEOUT } from './timings.js';

/** @typedef {import('./playback.js').Prepared} Prepared */

/** Seconds; players begin at a segment. */
const LIVE_START_TOLERANCE = 15;

export class View {
  #adapter;
  #controller = new AbortController();
  /** Where the entitlement begins that is known to hold. */
  #coveredFrom = Infinity;
  /** @type {Prepared | null} */
  prepared = null;
  /** @type {Heartbeats | null} */
  heartbeats = null;
  /** @type {import('./playback.js').Entitlement['program']} */
  program;
  /** The position at which the next program has to be asked for. */
  border = Infinity;
  live = false;
  /** Unix time of second 0 of a finished broadcast. @type {number | undefined} */
  since;
  /** Whether a picture was there. */
  shown = false;
  /** @type {{why: string, position: number, from: number} | null} */
  held = null;
  /** @type {Promise<boolean> | null} */
  renewal = null;
  /** Whether play waits for the player to reach a position that is allowed. */
  resuming = false;
  /** Whether a heartbeat has told that the session has ended. Media may tell it before, which the service does not see. */
  over = false;
  replacedAt = -Infinity;
  /** How often the media were loaded again since they came last. */
  reloads = 0;
  /** @type {import('./measures.js').Measures} */
  measures = /** @type {any} */ (undefined);

  /**
   * @param {string} assetId
   * @param {import('./player-adapter.js').StartOptions} options
   * @param {import('./player-adapter.js').PlayerAdapter} adapter
   * @param {Clock} clock
   */
  constructor(assetId, options, adapter, clock) {
    this.assetId = assetId;
    this.options = options;
    this.since = options.since;
    // The schedule of a lab partner may have a time of its own, of which heartbeats tell.
    this.clock = new Clock(clock);
    this.#adapter = adapter;
  }

  /** Aborts when this playback ends. */
  get signal() {
    return this.#controller.signal;
  }

  /**
   * Runs a function later, unless playback has ended.
   * @param {number} seconds
   * @param {() => void} run
   */
  later(seconds, run) {
    const cancel = after(seconds, run);
    this.signal.addEventListener('abort', cancel, { once: true });
  }

  close() {
    this.heartbeats?.stop();
    this.#controller.abort();
  }

  /**
   * @param {Prepared} prepared
   * @param {import('./playback.js').Entitlement} entitled
   * @param {number} [offset]
   */
  prepare(prepared, entitled, offset = 0) {
    this.prepared = prepared;
    this.live = entitled.program !== undefined; // only an entitlement to a livestream names the program
    if (this.live) this.#coveredFrom = this.clock.now() + offset;
  }

  /**
   * Sends heartbeats from the first picture on, or without one soon.
   * @param {ConstructorParameters<typeof Heartbeats>[1]} send
   */
  beginHeartbeats(send) {
    if (!this.prepared) return;
    const { heartbeatInterval, asked } = this.prepared;
    const heartbeats = (this.heartbeats = new Heartbeats(heartbeatInterval, send));
    // The service counts from the request, whose answer may have been late.
    this.later(HEARTBEAT_WITHIN - (performance.now() - asked) / 1000, () => heartbeats.start());
  }

  /**
   * @param {import('./playback.js').Entitlement['program']} program
   * @param {number} position
   * @param {number} late seconds after its stop at which the next one is asked for
   */
  enter(program, position, late) {
    const same = program?.broadcastId === this.program?.broadcastId;
    this.#coveredFrom = same ? Math.min(this.#coveredFrom, position) : position;
    this.program = program;
    this.border = program ? program.stop + late : Infinity;
  }

  /**
   * Whether a position lies in the program that is entitled.
   * @param {number} position
   */
  covers(position) {
    return position >= this.#coveredFrom && position < (this.program?.stop ?? Infinity);
  }

  /** Where a livestream that is shifted, or a film, begins. */
  startPosition() {
    const { offset, position } = this.options;
    if (this.live) return offset ? this.clock.now() + offset : undefined;
    return position;
  }

  /** Some players begin a livestream at the present only: a start that was shifted is sought. */
  correctStart() {
    const wanted = this.live ? this.startPosition() : undefined;
    if (wanted !== undefined && Math.abs(this.#atMedia() - wanted) > LIVE_START_TOLERANCE) this.seekMedia(wanted);
  }

  /** Options that begin where this playback stands. @returns {import('./player-adapter.js').StartOptions} */
  resumeOptions() {
    // A player that has failed may have forgotten where it was.
    if (!this.live) return { position: this.#filmPosition() };
    const behind = this.position() - this.clock.now();
    return { offset: behind < -60 ? Math.floor(behind) : undefined };
  }

  #filmPosition() {
    return this.held ? this.held.position - (this.since ?? 0) : this.#adapter.media.currentTime;
  }

  /** The same playback in a new session. */
  successor() {
    const view = new View(this.assetId, { ...this.options, ...(this.shown && this.resumeOptions()) }, this.#adapter, this.clock);
    view.since = this.since;
    view.measures = this.measures;
    view.replacedAt = performance.now();
    return view;
  }

  /** Where the viewer is: Unix seconds of what was broadcast, else seconds from the start. A livestream moves on while it is held. */
  position() {
    if (this.held) return this.held.position + (this.live ? (performance.now() - this.held.from) / 1000 : 0);
    return this.#atMedia();
  }

  #atMedia() {
    const { media } = this.#adapter;
    if (!this.live && this.since === undefined) return media.currentTime;
    const zero = this.#zero();
    // Before the first picture nobody knows where second 0 is.
    if (zero === null || (this.live && !this.shown)) return this.clock.now() + (this.options.offset ?? 0);
    return zero + media.currentTime;
  }

  #zero() {
    return this.#adapter.zero() ?? this.since ?? null;
  }

  /** @param {number} position */
  seekMedia(position) {
    const zero = this.live || this.since !== undefined ? this.#zero() : 0;
    if (zero !== null) this.#adapter.media.currentTime = Math.max(0, position - zero);
  }

  goLive() {
    if (this.#adapter.goLive) this.#adapter.goLive();
    else this.seekMedia(this.clock.now());
  }

  /**
   * The nearest position that a livestream has: nobody must be entitled to one program and see another.
   * @param {number} position
   */
  within(position) {
    const { seekable } = this.#adapter.media;
    const zero = this.#zero();
    const first = zero !== null && seekable.length > 0 ? zero + seekable.start(0) : -Infinity;
    return Math.max(first, Math.min(position, this.clock.now()));
  }

  /**
   * Whether the player can be sought to a position.
   * @param {number} position
   */
  reaches(position) {
    const { seekable } = this.#adapter.media;
    const zero = this.#zero();
    return zero !== null && seekable.length > 0 && position - zero <= seekable.end(seekable.length - 1);
  }

  /**
   * Players are seconds behind: what they have may still be of the program before.
   * @param {number} position
   */
  async untilReached(position) {
    for (let waited = 0; this.held && !this.reaches(position) && waited < START_TIMEOUT; waited += 1) await pause(1, this.signal);
  }

  /** Seconds that are ready from the present on. */
  ahead() {
    const { buffered, currentTime, paused } = this.#adapter.media;
    if (this.held || paused || this.signal.aborted) return 0;
    for (let i = 0; i < (buffered?.length ?? 0); i += 1) {
      if (buffered.start(i) <= currentTime && currentTime < buffered.end(i)) return buffered.end(i) - currentTime;
    }
    return 0;
  }

  /** @param {string} why */
  hold(why) {
    if (this.held) this.held.why = why;
    else this.held = { why, position: this.#atMedia(), from: performance.now() };
    // At 552 the service looks at the live point: it says when the next program may be shown.
    if (why === 'live-rights') this.held = { why: 'rights', position: this.clock.now(), from: performance.now() };
  }

  /** What a heartbeat says. @returns {import('./playback.js').Picture} */
  picture() {
    const { videoWidth = 0, videoHeight = 0 } = /** @type {HTMLVideoElement} */ (this.#adapter.media);
    return { position: this.position(), bitrate: this.#adapter.bitrate() || 0, width: videoWidth, height: videoHeight };
  }

  /** What every event of telemetry says. */
  facts() {
    const position = this.prepared && this.shown ? Math.round(this.position() * 10) / 10 : undefined;
    return { asset_id: this.assetId, session_id: this.prepared?.sessionId, playback_position: position };
  }
}

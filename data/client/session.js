// One playback as the interface obliges a player to do it. It drives any player through an adapter, and shows one state.

import { PlaygateError, asPlaygateError } from './error.js';
import { Measures } from './measures.js';
import { isOfEntitlement, isOfRights, isOfSession, isPassing, ofHeartbeat } from './obligations.js';
import { broadcastStart, entitle, prepare, sourceOf } from './prepare.js';
import { backOff, pause } from './retry.js';
import * as timings from './timings.js';
import { View } from './view.js';

/** @import {PlayerAdapter, SessionOptions, StartOptions, State} from './player-adapter.js' */

/**
 * Fires `statechange`, `programchange`, and `refusal` (with the error as `detail`) for what play goes on in spite of. Functions never
 * reject because of a refusal: `state`, `reason` and `error` say what happened.
 */
export class PlaybackSession extends EventTarget {
  #client;
  #adapter;
  #options;
  /** @type {View | null} */
  #view = null;
  /** @type {State} */
  #state = 'idle';
  /** Counts starts and stops: a start that waits for the end of the playback before gives way to a later one. */
  #turn = 0;
  /** @type {Promise<unknown>} the end of the last playback */
  #ending = Promise.resolve();
  #leave = () => {
    this.#turn += 1;
    if (this.#view) void this.#end(this.#view, 'stopped', null, true);
  };

  /**
   * @param {import('./client.js').PlaygateClient} client
   * @param {PlayerAdapter} adapter
   * @param {SessionOptions} [options]
   */
  constructor(client, adapter, options = {}) {
    super();
    this.#client = client;
    this.#adapter = adapter;
    this.#options = options;
    /** Why playback is held or has ended. @type {PlaygateError | null} */
    this.error = null;
    /** Why it has ended: `stopped`, `finished`, `failed`, or what the service said. */
    this.reason = '';
    globalThis.addEventListener?.('pagehide', this.#leave);
  }

  get state() {
    return this.#state;
  }

  get assetId() {
    return this.#view?.assetId;
  }

  /** Of a livestream: the program at the position, and when it stops. */
  get program() {
    return this.#view?.program;
  }

  get live() {
    return this.#view?.live ?? false;
  }

  /** What the preflight answered: addresses, DRM system, session id. */
  get prepared() {
    return this.#view?.prepared ?? null;
  }

  /** Unix seconds of a livestream and in catch-up, else seconds from the start; null if nothing plays. */
  get position() {
    return this.#view?.prepared ? this.#view.position() : null;
  }

  /**
   * Plays an asset: a livestream, a broadcast, or a film. Resolves when the player has begun to load, or the start was refused.
   * @param {string} assetId
   * @param {StartOptions} [options]
   */
  async start(assetId, options = {}) {
    const turn = this.#turn + 1;
    await this.stop();
    if (this.#turn !== turn) return;
    const view = new View(assetId, options, this.#adapter, this.#client.clock);
    this.#view = view;
    this.error = null;
    this.reason = '';
    view.measures = new Measures(this.#client.telemetry, () => (this.#view ?? view).facts());
    this.#set('starting');
    await this.#try(view, () => this.#begin(view));
  }

  /** Ends playback, and frees the stream at once. */
  async stop() {
    this.#turn += 1;
    if (this.#view) void this.#end(this.#view, 'stopped');
    await this.#ending;
  }

  /** Ends playback for good. */
  async close() {
    globalThis.removeEventListener?.('pagehide', this.#leave);
    await this.stop();
  }

  play() {
    const view = this.#view;
    if (!view?.shown || view.held) return;
    this.#adapter.media.play().catch(() => this.#mediaState(view)); // a browser that wants a click first
  }

  pause() {
    if (this.#view?.shown) this.#adapter.media.pause();
  }

  /**
   * Goes to a position; in a livestream another program needs its own entitlement.
   * @param {number} position as `position` has it
   */
  async seek(position) {
    const view = this.#view;
    if (!view?.shown) return;
    const to = view.live ? view.within(position) : position;
    await this.#try(view, async () => {
      if (view.live && (view.held || !view.covers(to)) && !(await this.#renew(view, to))) return;
      view.measures.seeking();
      this.#goOn(view, to);
      view.heartbeats?.once();
    });
  }

  /** Goes to the live point. */
  async goLive() {
    const view = this.#view;
    if (!view?.shown || !view.live) return;
    await this.#try(view, async () => {
      if (!(await this.#renew(view, view.clock.now()))) return;
      this.#goOn(view);
      view.goLive();
      view.heartbeats?.once();
    });
  }

  // -- The start

  /** @param {View} view */
  async #begin(view) {
    const entitled = await this.#entitle(view, { offset: view.options.offset });
    if (this.#view !== view) return;
    const since = view.since ?? (entitled.program ? undefined : broadcastStart(this.#client, view.assetId));
    const prepared = await prepare(this.#client, view.assetId, entitled.token, this.#adapter, view.signal, this.#options);
    view.prepare(prepared, entitled, view.options.offset);
    if (this.#view !== view) return void this.#free(view);
    view.beginHeartbeats((signal) => this.#beat(view, signal)); // before the schedule has answered
    view.since = await since;
    if (this.#view !== view) return;
    this.#listen(view);
    const late = new PlaygateError('the player shows no picture', { code: 'START_TIMEOUT' });
    view.later(this.#options.startTimeout ?? timings.START_TIMEOUT, () => view.shown || void this.#fail(view, late));
    await this.#load(view, prepared, view.startPosition());
    if (this.#view === view && this.#adapter.media.readyState >= 3) this.#show(view);
  }

  /**
   * @param {View} view
   * @param {import('./playback.js').Prepared} prepared
   * @param {number} [position]
   */
  #load(view, prepared, position) {
    return this.#adapter.load(sourceOf(this.#client, prepared, position), {
      failed: (error) => void this.#fail(view, error),
      buffering: (buffering) => view.measures.buffering(buffering),
      ended: () => void this.#end(view, 'finished'),
    });
  }

  /** @param {View} view */
  #listen(view) {
    const { media } = this.#adapter;
    const on = (/** @type {string} */ event, /** @type {() => void} */ act) =>
      media.addEventListener(event, act, { signal: view.signal });
    on('canplay', () => this.#show(view));
    on('play', () => this.#mediaState(view));
    on('pause', () => this.#mediaState(view));
    on('ended', () => void this.#end(view, 'finished'));
    on('waiting', () => view.measures.buffering(true));
    on('playing', () => view.measures.buffering(false));
    on('seeking', () => view.measures.seeking());
    on('timeupdate', () => this.#followProgram(view));
  }

  /** The first picture is there. @param {View} view */
  #show(view) {
    if (this.#view !== view) return;
    if (view.held?.why === 'network') this.#goOn(view);
    if (view.shown) return;
    view.shown = true;
    view.measures.started();
    view.correctStart();
    view.heartbeats?.start();
    this.play();
    this.#mediaState(view);
  }

  /** The viewer, the page or the browser has paused or gone on. @param {View} view */
  #mediaState(view) {
    const { paused, ended } = this.#adapter.media;
    if (this.#view !== view || !view.shown || view.held || ended) return;
    view.measures.paused(paused);
    this.#set(paused ? 'paused' : 'playing');
  }

  // -- Heartbeats

  /**
   * @param {View} view
   * @param {AbortSignal} signal
   * @returns {Promise<number | undefined>} seconds to wait beyond the interval
   */
  async #beat(view, signal) {
    const { prepared } = view;
    if (this.#view !== view || !prepared) return undefined;
    this.#followProgram(view);
    const picture = view.picture();
    view.measures.bitrate(picture.bitrate);
    const sent = Date.now() / 1000;
    try {
      const { interval, serverTime } = await this.#client.playback.heartbeat(prepared, picture, signal);
      if (this.#view !== view) return undefined;
      view.clock.observe(serverTime, sent);
      if (interval > 0 && view.heartbeats) view.heartbeats.interval = interval;
      if (view.held?.why === 'rights') void this.#try(view, () => this.#resume(view, picture.position));
      return undefined;
    } catch (error) {
      if (this.#view !== view || signal.aborted) return undefined;
      return this.#heed(view, asPlaygateError(error));
    }
  }

  /** Does what the refusal of a heartbeat obliges to. @param {View} view @param {PlaygateError} error */
  #heed(view, error) {
    const todo = ofHeartbeat(error);
    if (todo === 'hold-live') this.#hold(view, 'live-rights', error);
    else if (todo === 'hold') this.#hold(view, 'rights', error);
    else if (todo === 'ask-pin') void this.#try(view, () => this.#resume(view));
    else if (todo === 'renew') void this.#try(view, async () => void (await this.#renew(view)));
    else if (todo === 'end') {
      view.over = error.status === 410;
      void this.#fail(view, error);
    } else this.dispatchEvent(new CustomEvent('refusal', { detail: error }));
    return error.status === 429 || error.status === 503 ? error.retryAfter : undefined;
  }

  // -- Programs, rights and the PIN

  /** The next program has begun: may play go on? @param {View} view */
  #followProgram(view) {
    if (!view.live || !view.shown || view.held || !(view.position() >= view.border)) return;
    view.border = Infinity;
    void this.#try(view, async () => {
      if ((await this.#renew(view)) && view.held) this.#goOn(view, view.position());
    });
  }

  /**
   * Asks for entitlement of the running session at a position.
   * @param {View} view
   * @param {number} [position]
   * @returns {Promise<boolean>} whether it was given
   */
  #renew(view, position = view.position()) {
    view.renewal ??= this.#renewOnce(view, position).finally(() => (view.renewal = null));
    return view.renewal;
  }

  /** @param {View} view @param {number} position */
  async #renewOnce(view, position) {
    const behind = position - view.clock.now();
    const offset = view.live && behind < -timings.LIVE_WITHIN ? behind : undefined;
    try {
      const entitled = await this.#entitle(view, { offset, sessionId: view.prepared?.sessionId });
      if (this.#view !== view || !view.prepared) return false;
      this.#client.playback.renew(view.prepared, entitled.token);
      this.#enter(view, entitled, position);
      return true;
    } catch (error) {
      if (this.#view !== view) return false;
      const refusal = asPlaygateError(error);
      if (view.live && isOfRights(refusal)) this.#hold(view, 'rights', refusal);
      else if (isPassing(refusal)) view.border = view.position() + timings.BORDER_RETRY;
      else throw error;
      return false;
    }
  }

  /**
   * @param {View} view
   * @param {{offset?: number, sessionId?: string}} options
   */
  async #entitle(view, options) {
    const onPin = (/** @type {PlaygateError} */ error) => {
      if (this.#view !== view) return;
      if (view.shown) this.#hold(view, 'pin', error);
      else this.#set('pin', error);
    };
    const entitled = await entitle(this.#client, view.assetId, { ...options, signal: view.signal }, this.#options, onPin);
    if (this.#view === view && !view.shown) {
      this.#enter(view, entitled, view.clock.now() + (options.offset ?? 0));
      this.#set('starting');
    }
    return entitled;
  }

  /**
   * @param {View} view
   * @param {import('./playback.js').Entitlement} entitled
   * @param {number} position
   */
  #enter(view, { program }, position) {
    const changed = program?.broadcastId !== view.program?.broadcastId;
    view.enter(program, position, timings.LATE + Math.random() * timings.SPREAD);
    if (changed) this.dispatchEvent(new Event('programchange'));
  }

  /**
   * What was held may be shown again.
   * @param {View} view
   * @param {number} [allowed] the position that the service has allowed
   */
  async #resume(view, allowed) {
    if (view.renewal || view.resuming || !(await this.#renew(view, allowed))) return;
    view.resuming = true;
    if (allowed !== undefined) await view.untilReached(allowed);
    view.resuming = false;
    if (view.held) this.#goOn(view, allowed ?? view.position());
  }

  /**
   * The picture stops, and the session stays open.
   * @param {View} view
   * @param {'pin' | 'rights' | 'live-rights'} why
   * @param {PlaygateError} error
   */
  #hold(view, why, error) {
    view.hold(why);
    view.measures.paused(true, why);
    this.#adapter.media.pause();
    this.#set(why === 'pin' ? 'pin' : 'held', error);
  }

  /** @param {View} view @param {number} [position] */
  #goOn(view, position) {
    if (this.#view !== view) return;
    const wasHeld = view.held !== null;
    view.held = null;
    view.reloads = 0;
    this.error = null;
    if (position !== undefined) view.seekMedia(position);
    if (wasHeld) this.play();
    this.#mediaState(view);
  }

  // -- The end

  /** Runs a step; what it throws ends playback. @param {View} view @param {() => Promise<void>} step */
  async #try(view, step) {
    try {
      await step();
    } catch (error) {
      await this.#fail(view, asPlaygateError(error));
    }
  }

  /**
   * @param {View} view
   * @param {PlaygateError} error
   */
  async #fail(view, error) {
    if (this.#view !== view) return;
    // The media are away, as with the network: the session lives on.
    if (view.shown && isPassing(error)) return this.#reload(view, error);
    const replaced = isOfSession(error) || (isOfEntitlement(error) && view.prepared);
    const recent = performance.now() - view.replacedAt < timings.REPLACE_EVERY_SECONDS * 1000;
    if (replaced && !recent) return this.#replace(view);
    if (view.prepared && error.code !== 'PIN_CODE_REQUIRED') view.measures.failed(error);
    return this.#end(view, error.details.reason ?? (error.status ? 'refused' : 'failed'), error);
  }

  /**
   * Loads the same session again until its media come, or for two minutes.
   * @param {View} view
   * @param {PlaygateError} error
   */
  async #reload(view, error) {
    const { prepared } = view;
    const away = view.held?.why === 'network' ? (performance.now() - view.held.from) / 1000 : 0;
    if (!prepared || away > timings.AWAY_SECONDS) return this.#end(view, 'failed', error);
    // What is there plays out first.
    while (view.ahead() > 0.5) await pause(0.5, view.signal).catch(() => {});
    if (this.#view !== view) return;
    const { position = view.startPosition(), offset } = view.resumeOptions();
    if (!view.held) view.hold('network');
    view.measures.buffering(true);
    this.#set('held', error);
    await pause(backOff((view.reloads += 1)), view.signal).catch(() => {});
    if (this.#view !== view) return;
    await this.#adapter.unload();
    if (this.#view !== view) return;
    await this.#try(view, () => this.#load(view, prepared, view.live ? offset && view.clock.now() + offset : position));
  }

  /** A new session in the place of one that is lost, at the same position. @param {View} lost */
  async #replace(lost) {
    const view = lost.successor();
    this.#view = view;
    lost.close();
    await this.#adapter.unload();
    if (this.#view !== view) return;
    this.#set('starting');
    await this.#try(view, () => this.#begin(view));
  }

  /**
   * @param {View} view
   * @param {string} reason
   * @param {PlaygateError | null} [error]
   * @param {boolean} [leaving] whether the page closes
   */
  async #end(view, reason, error = null, leaving = false) {
    if (this.#view !== view) return;
    view.measures.stopped();
    this.#view = null;
    view.close();
    this.reason = reason;
    this.#set('ended', error);
    const freed = view.over ? undefined : this.#free(view);
    const reported = leaving ? this.#client.telemetry.sendBeforeClose() : this.#client.telemetry.flush();
    await (this.#ending = Promise.allSettled([freed, this.#adapter.unload(), reported]));
  }

  /** @param {View} view */
  async #free(view) {
    // The service frees a stream that it was not told of after 35 seconds.
    if (view.prepared) await this.#client.playback.end(view.prepared).catch(() => {});
  }

  /**
   * @param {State} state
   * @param {PlaygateError | null} [error]
   */
  #set(state, error = null) {
    this.error = error;
    if (state === this.#state && !error) return;
    this.#state = state;
    this.dispatchEvent(new Event('statechange'));
  }
}

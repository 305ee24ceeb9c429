// `<playgate-player>`: a client, a session, a picture and controls, from attributes.

import { PlaybackSession, PlaygateClient, PlaygateError } from './playgate-client.js';
import { ShakaAdapter } from './adapter-shaka.js';
import { Controls } from './player-controls.js';
import { Panels } from './player-panels.js';
import { STYLE, template } from './player-template.js';
import { refusalText, texts } from './player-texts.js';
import { Tracks } from './player-tracks.js';

/** @typedef {import('./player-adapter.js').PlayerAdapter} PlayerAdapter */

/** Refusals that a log-in gets round. */
const LOGGED_OUT = ['NOT_LOGGED_IN', 'USER_TOKEN_INVALID', 'INVALID_CREDENTIALS'];

/**
 * Attributes: `base-url`, `partner-token`, `asset`; `offset` (seconds behind live), `position` (seconds of a film), `header-prefix`,
 * `lang` (en, sv, de), `muted`, `poster`, `name` (shown without a schedule). Fires `statechange` and `programchange` of its session, and `refusal`.
 */
export class PlaygatePlayer extends HTMLElement {
  static observedAttributes = ['asset', 'base-url', 'partner-token', 'offset', 'position'];

  /** Shaka Player, unless it is the global `shaka` or can be imported as `shaka-player`. @type {any} */
  static shaka = undefined;

  #root = this.attachShadow({ mode: 'open' });
  #controller = new AbortController();
  /** @type {PlaygateClient | null} */
  #client = null;
  #ownClient = true;
  /** @type {Controls | null} */
  #controls = null;
  /** @type {Panels | null} */
  #panels = null;
  #planned = false;
  /** Counts changes: a later one ends what an earlier one is at. */
  #turn = 0;
  #declined = false;
  /** What the controls show; see `Playable`. */
  words = texts('en');
  /** @type {PlaybackSession | null} */
  session = null;
  /** @type {import('./player-controls.js').Playable['range']} */
  #program = null;
  /** @type {import('./player-adapter.js').TrackLists | null} */
  tracks = null;
  mayStartOver = false;
  replay = () => void this.#start();
  now = () => this.client?.clock.now() ?? Date.now() / 1000;
  /** Makes the adapter of another player. @type {((video: HTMLVideoElement) => PlayerAdapter) | undefined} */
  adapter;

  get video() {
    return /** @type {HTMLVideoElement} */ (this.#root.querySelector('video'));
  }

  /** The client: the page's own, or one that is made from the attributes. */
  get client() {
    return this.#client;
  }

  set client(client) {
    if (client === this.#client) return;
    void this.#close();
    this.#client = client;
    this.#ownClient = false;
    this.#plan();
  }

  get range() {
    if (this.#program) return this.#program;
    const { duration } = this.video;
    if (!Number.isFinite(duration) || this.session?.live || this.session?.position == null) return null;
    const start = (this.session?.position ?? 0) - this.video.currentTime;
    return { start, stop: start + duration };
  }

  connectedCallback() {
    if (this.#controls) return; // moved within the page
    this.words = texts(this.closest('[lang]')?.getAttribute('lang') ?? navigator.language);
    this.#controller = new AbortController();
    const style = new CSSStyleSheet();
    style.replaceSync(STYLE);
    this.#root.adoptedStyleSheets = [style];
    this.#root.innerHTML = template(this.words);
    this.video.muted = this.hasAttribute('muted');
    this.video.poster = this.getAttribute('poster') ?? '';
    this.#panels = new Panels(/** @type {HTMLElement} */ (this.#root.querySelector('.stage')), this.words);
    this.#controls = new Controls(this.#root, this, this.#controller.signal);
    this.#plan();
  }

  /** A page that moves the element takes it out and puts it back at once; then play goes on. */
  disconnectedCallback() {
    queueMicrotask(() => {
      if (this.isConnected) return;
      this.#controller.abort();
      this.#controls?.close();
      this.#panels?.close();
      this.#controls = this.#panels = null;
      this.#turn += 1;
      void this.#close();
    });
  }

  attributeChangedCallback() {
    this.#plan();
  }

  /** Several attributes that change together are one change. */
  #plan() {
    if (this.#planned || !this.#controls) return;
    this.#planned = true;
    queueMicrotask(() => {
      this.#planned = false;
      if (this.#controls) void this.#renew();
    });
  }

  async #close() {
    const { session } = this;
    const client = this.#ownClient ? this.#client : null;
    // Before the wait: the element may open another client during it.
    this.session = null;
    if (this.#ownClient) this.#client = null;
    await session?.close();
    client?.close();
  }

  async #renew() {
    const again = this.session && this.#client && (!this.#ownClient || this.#client.baseUrl === new URL(this.getAttribute('base-url') ?? '', location.href).href);
    // Nothing is wrong yet: a framework may set attributes and client later.
    if (this.#ownClient && !this.hasAttribute('base-url')) return;
    const turn = (this.#turn += 1);
    const isLast = () => this.#turn === turn;
    try {
      if (!again) {
        await this.#close();
        if (isLast()) await this.#open(isLast);
      }
      if (isLast()) await this.#start();
    } catch (error) {
      this.#refuse(/** @type {PlaygateError} */ (error), '');
    }
  }

  /** @param {() => boolean} isLast */
  async #open(isLast) {
    if (this.#ownClient) {
      this.#client = new PlaygateClient({
        baseUrl: this.getAttribute('base-url') ?? '',
        partnerToken: this.getAttribute('partner-token') ?? '',
        headerPrefix: this.getAttribute('header-prefix') ?? undefined,
        app: { name: 'playgate-player' },
        credentials: async () => (await this.#panels?.askCredentials(null)) ?? this.#decline(),
      });
    }
    const adapter = this.adapter?.(this.video) ?? (await this.#shakaAdapter()) ?? (await this.#builtinAdapter());
    if (!isLast()) return;
    if (adapter.name === 'builtin' && !this.adapter) {
      console.info('playgate-player: Shaka Player is not loaded; the built-in player has DASH of Playgate’s origin, and Clear Key');
    }
    const panels = () => /** @type {Panels} */ (this.#panels);
    const session = new PlaybackSession(/** @type {PlaygateClient} */ (this.#client), adapter, {
      askPin: (error, signal) => panels().askPin(error, signal),
      chooseSession: (sessions, error, signal) =>
        panels().choose(error, sessions.map(({ sessionId, deviceModel, assetId }) => ({ value: sessionId, label: this.words.endSession(`${deviceModel}: ${assetId}`) })), signal),
      chooseDevice: (devices, error, signal) =>
        panels().choose(error, devices.map(({ deviceId, deviceModel }) => ({ value: deviceId, label: this.words.removeDevice(deviceModel) })), signal),
    });
    this.session = session;
    session.addEventListener('statechange', () => this.#changed(session, adapter));
    session.addEventListener('programchange', () => void this.#findProgram(session));
  }

  async #shakaAdapter() {
    const found = PlaygatePlayer.shaka ?? /** @type {any} */ (globalThis).shaka;
    const name = 'shaka-player'; // a name that no page without a bundler or an import map knows
    const shaka = found ?? (await import(/* @vite-ignore */ name).then((module) => module.default ?? module, () => undefined));
    return shaka?.Player.isBrowserSupported() ? new ShakaAdapter(shaka, this.video) : undefined;
  }

  /** Pages with Shaka Player load nothing of it. */
  async #builtinAdapter() {
    const { BuiltinAdapter } = await import('./adapter-builtin.js');
    return new BuiltinAdapter(this.video);
  }

  async #start() {
    const { session } = this;
    const asset = this.getAttribute('asset');
    if (!session || !asset) return;
    this.#panels?.close();
    this.#program = null;
    this.#title(this.getAttribute('name') ?? '');
    await session.start(asset, { offset: this.#number('offset'), position: this.#number('position') });
    if (this.session !== session) return;
    if (!session.live && session.state !== 'ended' && !this.hasAttribute('name')) void this.#findTitle(session, asset);
  }

  /** @param {string} attribute */
  #number(attribute) {
    const value = this.getAttribute(attribute);
    return value === null || value === '' ? undefined : Number(value);
  }

  /**
   * @param {PlaybackSession} session
   * @param {PlayerAdapter} adapter
   */
  #changed(session, adapter) {
    if (this.session !== session || !this.#controls) return;
    const { state, error, reason } = session;
    this.#say(state === 'starting' ? this.words.loading : state === 'held' && error ? refusalText(error, '', this.words) : '');
    this.#root.querySelector('.stage')?.classList.toggle('held', state === 'held');
    if (state === 'ended' && error) this.#refuse(error, reason);
    this.tracks = adapter.tracks ?? (adapter instanceof ShakaAdapter && adapter.player ? new Tracks(adapter.player, this.words) : null);
    this.#controls.showTracks();
    this.#controls.show();
    this.dispatchEvent(new CustomEvent('statechange', { detail: { state, reason, error } }));
  }

  /**
   * @param {PlaygateError} error
   * @param {string} reason
   */
  #refuse(error, reason) {
    this.dispatchEvent(new CustomEvent('refusal', { detail: error }));
    if (LOGGED_OUT.includes(error.code) && !this.#declined) return void this.#logIn(error);
    this.#declined = false;
    void this.#panels?.refuse(refusalText(error, reason, this.words), () => void (this.session ? this.#start() : this.#renew()));
  }

  /** The viewer does not log in, and is not asked again before the next start. */
  #decline() {
    this.#declined = true;
    return null;
  }

  /** @param {PlaygateError} error */
  async #logIn(error) {
    const given = await this.#panels?.askCredentials(error);
    if (!this.#controls) return;
    try {
      if (!given) this.#decline();
      else await this.#client?.logIn(given.identity, given.accessKey);
      await (given ? this.#start() : this.#refuse(error, ''));
    } catch (refusal) {
      this.#refuse(/** @type {PlaygateError} */ (refusal), '');
    }
  }

  /** @param {string} text */
  #say(text) {
    const status = /** @type {HTMLElement} */ (this.#root.querySelector('.status'));
    if (status.textContent !== text) status.textContent = text;
  }

  /** @param {string} text */
  #title(text) {
    const title = /** @type {HTMLElement} */ (this.#root.querySelector('.title'));
    title.textContent = text;
  }

  /** The name and the bounds of the program that plays. @param {PlaybackSession} session */
  async #findProgram(session) {
    const id = session.program?.broadcastId;
    const found = id ? await this.#client?.guide.broadcast(id).catch(() => undefined) : undefined;
    if (this.session !== session || !this.#controls) return;
    this.#program = found ? { start: found.start, stop: found.stop } : null;
    this.mayStartOver = found?.extendedRights.rewind ?? false;
    if (found) this.#title(found.title);
    this.#controls.show();
    this.dispatchEvent(new CustomEvent('programchange', { detail: found }));
  }

  /**
   * @param {PlaybackSession} session
   * @param {string} asset
   */
  async #findTitle(session, asset) {
    const { guide } = /** @type {PlaygateClient} */ (this.#client);
    const [assets, broadcasts] = await Promise.all([guide.assets().catch(() => []), guide.broadcasts([asset]).catch(() => ({}))]);
    const title = assets.find(({ id }) => id === asset)?.title ?? /** @type {any} */ (broadcasts)[asset]?.title;
    if (this.session === session && this.#controls && title) this.#title(title);
  }
}

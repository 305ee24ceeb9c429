// dash.js: DASH with Widevine, PlayReady or Clear Key.

import { KEY_SYSTEMS, available, playerError } from './drm.js';

/** Keys of CMCD that count. */
const CMCD = { enabledKeys: ['br', 'ec', 'msd', 'sn', 'sta'], events: ['ps', 'e', 't'], interval: 10 };

/**
 * @typedef {import('./player-adapter.js').Way} Way
 * @typedef {import('./player-adapter.js').PlayerAdapter} PlayerAdapter
 */

/** @implements {PlayerAdapter} */
export class DashAdapter {
  name = 'dashjs';
  /** The player while something is loaded. @type {any} */
  player = null;
  #dashjs;
  #settings;
  #cmcd;

  /**
   * @param {any} dashjs the module
   * @param {HTMLMediaElement} media
   * @param {{settings?: object, cmcd?: boolean}} [options] `cmcd` lets the player report by itself
   */
  constructor(dashjs, media, { settings = {}, cmcd = false } = {}) {
    this.#dashjs = dashjs;
    this.media = media;
    this.#settings = settings;
    this.#cmcd = cmcd;
  }

  /** @returns {Promise<Way[]>} */
  async ways() {
    const systems = await available(['widevine', 'playready', 'clearkey']);
    return [...systems, /** @type {const} */ ('none')].map((drm) => ({ drm, protocol: 'dash' }));
  }

  /**
   * @param {import('./player-adapter.js').Source} source
   * @param {import('./player-adapter.js').AdapterEvents} events
   */
  async load({ prepared, position, licenseHeaders }, events) {
    const player = (this.player = this.#dashjs.MediaPlayer().create());
    const { ERROR, PLAYBACK_ENDED } = this.#dashjs.MediaPlayer.events;
    // dash.js may see the end before the video does, and pauses it, which then has no `ended`. `ended` destroys the player, whose
    // own listeners come first.
    player.on(PLAYBACK_ENDED, (/** @type {any} */ { isLast }) => isLast && queueMicrotask(events.ended));
    player.on(ERROR, (/** @type {any} */ { error }) => {
      const { request, serverResponse, response } = error.data ?? {};
      const facts = { request: Boolean(request ?? response), status: response?.status, text: serverResponse ?? response?.data, cause: error };
      if (this.player === player) events.failed(playerError(`dash.js: ${error.code} ${error.message ?? ''}`, facts));
    });
    player.initialize();
    player.updateSettings(this.#settings);
    const { license, drm, cmcd, playlist } = prepared;
    if (cmcd && this.#cmcd) {
      const target = { url: cmcd.url, ...CMCD };
      player.updateSettings({ streaming: { cmcd: { enabled: true, version: cmcd.version, enabledKeys: [], eventTargets: [target] } } });
    }
    player.attachView(this.media);
    if (license) {
      // dash.js sends cookies as soon as it sees an Authorization header, and the browser then rejects the response.
      const server = { serverURL: license, httpRequestHeaders: licenseHeaders(), withCredentials: false };
      player.setProtectionData(Object.fromEntries((KEY_SYSTEMS[drm] ?? []).map((name) => [name, server])));
    }
    player.attachSource(playlist, position === undefined ? NaN : position > 1e9 ? `posix:${position}` : position);
  }

  zero() {
    const live = this.player?.isReady() && this.player.isDynamic();
    return live ? this.player.timeAsUTC() - this.player.time() : null;
  }

  bitrate() {
    const of = (/** @type {string} */ type) => this.player?.getCurrentRepresentationForType(type)?.bandwidth ?? 0;
    return this.player?.isReady() ? of('video') + of('audio') : 0;
  }

  goLive() {
    this.player?.seekToOriginalLive();
  }

  unload() {
    const { player } = this;
    this.player = null;
    player?.destroy();
  }
}

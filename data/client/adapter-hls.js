// hls.js: HLS with FairPlay, or in the clear.

import { available, playerError } from './drm.js';

/**
 * @typedef {import('./player-adapter.js').Way} Way
 * @typedef {import('./player-adapter.js').PlayerAdapter} PlayerAdapter
 */

/** @implements {PlayerAdapter} */
export class HlsAdapter {
  name = 'hlsjs';
  /** The player while something is loaded. @type {any} */
  player = null;
  #Hls;
  #configuration;
  /** @type {number | null} */
  #zero = null;

  /**
   * @param {any} Hls the class
   * @param {HTMLMediaElement} media
   * @param {{configuration?: object}} [options]
   */
  constructor(Hls, media, { configuration = {} } = {}) {
    this.#Hls = Hls;
    this.media = media;
    this.#configuration = configuration;
  }

  /** @returns {Promise<Way[]>} */
  async ways() {
    const systems = await available(['fairplay']);
    return [...systems, /** @type {const} */ ('none')].map((drm) => ({ drm, protocol: 'hls' }));
  }

  /**
   * @param {import('./player-adapter.js').Source} source
   * @param {import('./player-adapter.js').AdapterEvents} events
   */
  async load({ prepared, position, licenseHeaders }, events) {
    const { license, certificate, playlist } = prepared;
    const drm = license && {
      emeEnabled: true,
      drmSystems: { 'com.apple.fps': { licenseUrl: license, serverCertificateUrl: certificate } },
      licenseXhrSetup: (/** @type {XMLHttpRequest} */ request) => {
        for (const [name, value] of Object.entries(licenseHeaders())) request.setRequestHeader(name, value);
      },
    };
    // A Unix time is sought when the playlist has told where it lies.
    const start = position !== undefined && position < 1e9 ? { startPosition: position } : {};
    const player = (this.player = new this.#Hls({ ...start, ...drm, ...this.#configuration }));
    this.#zero = null;
    player.on(this.#Hls.Events.ERROR, (/** @type {string} */ _, /** @type {any} */ { type, fatal, details, networkDetails, error }) => {
      if (!fatal || this.player !== player) return;
      const text = networkDetails?.responseType === 'arraybuffer' ? networkDetails.response : networkDetails?.responseText;
      const request = type === this.#Hls.ErrorTypes.NETWORK_ERROR;
      events.failed(playerError(`hls.js: ${details}`, { request, status: networkDetails?.status, text, cause: error }));
    });
    player.attachMedia(this.media);
    player.loadSource(playlist);
  }

  zero() {
    const date = this.player?.playingDate; // none while what was sought is on its way
    if (date) this.#zero = date.getTime() / 1000 - this.media.currentTime;
    return this.#zero;
  }

  bitrate() {
    const { levels = [], currentLevel = -1 } = this.player ?? {};
    return levels[currentLevel]?.bitrate ?? 0;
  }

  goLive() {
    const position = this.player?.liveSyncPosition;
    if (position) this.media.currentTime = position;
  }

  unload() {
    const { player } = this;
    this.player = null;
    player?.destroy();
  }
}

// The video element alone: HLS where the browser plays it (Safari, televisions), with FairPlay or in the clear.

import { available, keySystem, playerError } from './drm.js';

/**
 * @typedef {import('./player-adapter.js').Way} Way
 * @typedef {import('./player-adapter.js').PlayerAdapter} PlayerAdapter
 */

/** @implements {PlayerAdapter} */
export class VideoAdapter {
  name = 'video';
  #controller = new AbortController();
  #ways;

  /**
   * @param {HTMLMediaElement} media
   * @param {{ways?: Way[]}} [options] what the element plays, if it is more than HLS
   */
  constructor(media, { ways } = {}) {
    this.media = media;
    this.#ways = ways;
  }

  /** @returns {Promise<Way[]>} */
  async ways() {
    if (this.#ways) return this.#ways;
    if (!this.media.canPlayType('application/vnd.apple.mpegurl')) return [];
    const systems = await available(['fairplay']);
    return [...systems, /** @type {const} */ ('none')].map((drm) => ({ drm, protocol: 'hls' }));
  }

  /**
   * @param {import('./player-adapter.js').Source} source
   * @param {import('./player-adapter.js').AdapterEvents} events
   */
  async load(source, events) {
    const { media } = this;
    const { signal } = (this.#controller = new AbortController());
    media.addEventListener('error', () => events.failed(playerError(`video element: ${media.error?.message}`)), { signal });
    if (source.prepared.license) await this.#decrypt(source, events, signal);
    if (signal.aborted) return;
    media.src = source.prepared.playlist;
    const { position } = source;
    if (position !== undefined && position < 1e9) media.currentTime = position;
  }

  /**
   * Encrypted Media Extensions: a license for each key that the media name.
   * @param {import('./player-adapter.js').Source} source
   * @param {import('./player-adapter.js').AdapterEvents} events
   * @param {AbortSignal} signal
   */
  async #decrypt({ prepared, license, certificate }, events, signal) {
    const access = await keySystem(prepared.drm);
    if (!access) throw playerError(`this browser has no ${prepared.drm}`);
    const keys = await access.createMediaKeys();
    if (prepared.drm === 'fairplay') await keys.setServerCertificate(await certificate());
    await this.media.setMediaKeys(keys);
    /** @type {Set<string>} */
    const asked = new Set();
    const unlock = async (/** @type {MediaEncryptedEvent} */ { initDataType, initData }) => {
      // Sound and picture of one key name it twice.
      const known = String(initData && new Uint8Array(initData));
      if (!initData || asked.has(known)) return;
      asked.add(known);
      const session = keys.createSession();
      session.addEventListener('message', ({ message }) => {
        license(message)
          .then((answer) => session.update(answer))
          .catch((error) => !signal.aborted && events.failed(error));
      });
      await session.generateRequest(initDataType, initData);
    };
    const encrypted = (/** @type {MediaEncryptedEvent} */ event) =>
      void unlock(event).catch((cause) => !signal.aborted && events.failed(playerError(`video element: ${cause.message}`, { cause })));
    this.media.addEventListener('encrypted', encrypted, { signal });
  }

  zero() {
    // Only Safari has this function: the date of second 0.
    const start = /** @type {any} */ (this.media).getStartDate?.().getTime() / 1000;
    return Number.isFinite(start) ? start : null;
  }

  bitrate() {
    return 0;
  }

  async unload() {
    this.#controller.abort();
    this.media.removeAttribute('src');
    this.media.load();
    await this.media.setMediaKeys?.(null).catch(() => {});
  }
}

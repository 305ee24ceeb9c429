// What the browser has by itself, for pages without a player of others: DASH of Playgate's origin, in the clear or with Clear Key, and
// what the video element plays. It keeps to one quality; partners' applications take Shaka Player, dash.js or hls.js.

import { VideoAdapter } from './adapter-video.js';
import { BuiltinStream } from './builtin-stream.js';
import { available } from './drm.js';
import { asPlaygateError } from './error.js';

/**
 * @typedef {import('./player-adapter.js').Way} Way
 * @typedef {import('./player-adapter.js').PlayerAdapter} PlayerAdapter
 */

/** @implements {PlayerAdapter} */
export class BuiltinAdapter extends VideoAdapter {
  name = 'builtin';
  /** @type {BuiltinStream | null} */
  #stream = null;
  #fetch;

  /**
   * @param {HTMLMediaElement} media
   * @param {{fetch?: (url: URL, init: RequestInit) => Promise<Response>}} [options] `fetch` of playlists and segments
   */
  constructor(media, { fetch } = {}) {
    super(media);
    this.#fetch = fetch ?? ((/** @type {URL} */ url, /** @type {RequestInit} */ init) => globalThis.fetch(url, init));
  }

  /** @returns {Promise<Way[]>} */
  async ways() {
    const ofVideo = await super.ways();
    if (typeof MediaSource === 'undefined') return ofVideo;
    const systems = await available(['clearkey']);
    const dash = /** @type {Way[]} */ ([...systems, 'none'].map((drm) => ({ drm, protocol: 'dash' })));
    return [...dash, ...ofVideo];
  }

  /**
   * @param {import('./player-adapter.js').Source} source
   * @param {import('./player-adapter.js').AdapterEvents} events
   */
  async load(source, events) {
    const { prepared, position, license } = source;
    if (prepared.protocol !== 'dash') return super.load(source, events);
    /** @type {BuiltinStream} */
    const stream = new BuiltinStream(this.media, prepared.playlist, {
      fetch: this.#fetch,
      license,
      failed: (error) => this.#stream === stream && events.failed(asPlaygateError(error)),
    });
    this.#stream = stream;
    try {
      await stream.load(position);
    } catch (error) {
      if (this.#stream === stream) throw error;
    }
  }

  zero() {
    return this.#stream ? this.#stream.zero : super.zero();
  }

  bitrate() {
    return this.#stream?.bitrate ?? super.bitrate();
  }

  goLive() {
    const { seekable } = this.media;
    if (this.#stream) this.#stream.goLive();
    else if (seekable.length > 0) this.media.currentTime = seekable.end(seekable.length - 1);
  }

  /** For the lists of `<playgate-player>`. */
  get tracks() {
    const stream = this.#stream;
    return {
      options: (/** @type {string} */ kind) => (kind === 'quality' ? (stream?.qualities ?? []) : []),
      choose: (/** @type {string} */ _, /** @type {string} */ value) => void stream?.choose(value).catch(() => {}),
    };
  }

  async unload() {
    const stream = this.#stream;
    this.#stream = null;
    await (stream ? stream.close() : super.unload());
  }
}

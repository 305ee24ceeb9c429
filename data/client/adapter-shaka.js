// Shaka Player: DASH with Widevine, PlayReady or Clear Key; HLS with FairPlay or in the clear.

import { KEY_SYSTEMS, available, playerError } from './drm.js';

/** A license is asked for twice more, as the interface says, and not before a second has passed: the fuzz goes both ways. */
const RETRY = { maxAttempts: 3, baseDelay: 1500, backoffFactor: 2, fuzzFactor: 0.3, timeout: 20_000 };
/** Seconds between two tries for a segment that does not come; what is there plays on. */
const RETRY_SECONDS = 2;
/** Keys of CMCD that count. */
const CMCD = { includeKeys: ['br', 'ec', 'msd', 'sn', 'sta'], events: ['ps', 'bc', 'e', 't'], interval: 10 };

/**
 * @typedef {import('./player-adapter.js').Way} Way
 * @typedef {import('./player-adapter.js').PlayerAdapter} PlayerAdapter
 */

/** @implements {PlayerAdapter} */
export class ShakaAdapter {
  name = 'shaka';
  /** The player while something is loaded. @type {any} */
  player = null;
  #shaka;
  #configuration;
  #cmcd;

  /**
   * @param {any} shaka the module
   * @param {HTMLMediaElement} media
   * @param {{configuration?: object, cmcd?: boolean}} [options] `cmcd` lets the player report by itself
   */
  constructor(shaka, media, { configuration = {}, cmcd = false } = {}) {
    this.#shaka = shaka;
    this.media = media;
    this.#configuration = configuration;
    this.#cmcd = cmcd;
    shaka.polyfill.installAll();
  }

  /** @returns {Promise<Way[]>} */
  async ways() {
    const systems = await available(['widevine', 'playready', 'fairplay', 'clearkey']);
    const encrypted = systems.map((drm) => ({ drm, protocol: drm === 'fairplay' ? 'hls' : 'dash' }));
    return /** @type {Way[]} */ ([...encrypted, { drm: 'none', protocol: 'dash' }, { drm: 'none', protocol: 'hls' }]);
  }

  /**
   * @param {import('./player-adapter.js').Source} source
   * @param {import('./player-adapter.js').AdapterEvents} events
   */
  async load({ prepared, position, licenseHeaders, certificate }, events) {
    const { util, net, Player } = this.#shaka;
    const player = (this.player = new Player());
    const failed = (/** @type {any} */ error) => this.player === player && this.#report(error, events.failed);
    const { STREAMING, NETWORK } = util.Error.Category;
    const isTriedAgain = (/** @type {any} */ error) => [STREAMING, NETWORK].includes(error.category) && this.#isLost(error);
    player.addEventListener('error', (/** @type {any} */ { detail }) => (isTriedAgain(detail) && loaded) || failed(detail));
    let loaded = false;
    player.addEventListener('buffering', (/** @type {any} */ { buffering }) => events.buffering(buffering));
    // When a livestream began is for its manifest to say: heartbeats go by it.
    const failureCallback = (/** @type {any} */ error) => this.#isLost(error) && player.retryStreaming(RETRY_SECONDS);
    player.configure({ manifest: { dash: { autoCorrectDrift: false } }, drm: { retryParameters: RETRY }, streaming: { failureCallback } });
    const { license, drm, cmcd } = prepared;
    if (license) {
      const names = KEY_SYSTEMS[drm] ?? [];
      player.configure({ drm: { servers: Object.fromEntries(names.map((name) => [name, license])) } });
    }
    if (cmcd && this.#cmcd) {
      const eventTargets = [{ url: cmcd.url, ...CMCD }];
      // `cen` is a key that requests never have: an empty list would mean all.
      player.configure('cmcd', { enabled: true, version: cmcd.version, includeKeys: ['cen'], eventTargets });
    }
    player.configure(this.#configuration);
    player.getNetworkingEngine().registerRequestFilter((/** @type {number} */ type, /** @type {any} */ request) => {
      if (type === net.NetworkingEngine.RequestType.LICENSE) Object.assign(request.headers, licenseHeaders());
    });
    try {
      if (license && drm === 'fairplay') {
        const serverCertificate = new Uint8Array(await certificate());
        player.configure({ drm: { advanced: { 'com.apple.fps': { serverCertificate } } } });
      }
      await player.attach(this.media);
      const unix = position !== undefined && position > 1e9;
      await player.load(prepared.playlist, position === undefined ? null : unix ? new Date(position * 1000) : position);
      loaded = true;
    } catch (/** @type {any} */ error) {
      if (error?.code !== util.Error.Code.LOAD_INTERRUPTED) failed(error);
    }
  }

  /**
   * Whether a request had no answer, or that of a service that has failed.
   * @param {any} error
   */
  #isLost({ code, data }) {
    const { BAD_HTTP_STATUS, HTTP_ERROR, TIMEOUT } = this.#shaka.util.Error.Code;
    return code === HTTP_ERROR || code === TIMEOUT || (code === BAD_HTTP_STATUS && (data[1] === 429 || data[1] >= 500));
  }

  /**
   * @param {any} error
   * @param {(error: import('./error.js').PlaygateError) => void} failed
   */
  #report(error, failed) {
    const { Severity, Code } = this.#shaka.util.Error;
    if (error.severity !== undefined && error.severity !== Severity.CRITICAL) return;
    const cause = error.code === Code.LICENSE_REQUEST_FAILED ? error.data?.[0] : error;
    const answer = cause?.code === Code.BAD_HTTP_STATUS ? { status: cause.data[1], text: cause.data[2] } : {};
    const request = this.#isLost(cause ?? {});
    failed(playerError(`Shaka Player: ${error.code ?? error.message}`, { request, ...answer, cause: error }));
  }

  zero() {
    const start = this.player?.isLive() ? this.player.getPresentationStartTimeAsDate() : null;
    return start ? start.getTime() / 1000 : null;
  }

  bitrate() {
    return this.player?.getStats().streamBandwidth || 0;
  }

  goLive() {
    this.player?.goToLive();
  }

  async unload() {
    const { player } = this;
    this.player = null;
    await player?.destroy();
  }
}

// The requests of one playback, each by itself. `PlaybackSession` makes them in the order that the interface asks for.

import { NEVER, REPEAT, REPEAT_LICENSE } from './retry.js';

/**
 * @typedef {'widevine' | 'playready' | 'fairplay' | 'clearkey' | 'none'} Drm
 * @typedef {'dash' | 'dashs' | 'hls' | 'hls-audio' | 'sstr' | 'sstrs'} Protocol
 *
 * @typedef {object} Entitlement
 * @property {string} token
 * @property {number} expires
 * @property {{broadcastId: string, stop: number}} [program] of a livestream
 *
 * @typedef {object} Prepared what the answer of a preflight has, and what was asked
 * @property {string} playlist
 * @property {string} [license] absent if the asset is not encrypted
 * @property {string} [licenseSigned]
 * @property {string} [certificate]
 * @property {string} heartbeat
 * @property {number} heartbeatInterval
 * @property {{url: string, version: number}} [cmcd]
 * @property {Drm} drm
 * @property {Protocol} protocol
 * @property {string} sessionId
 * @property {number} asked when, as `performance.now()` has it
 * @property {Record<string, string>} headers of license and heartbeat requests
 *
 * @typedef {object} Picture
 * @property {number} position Unix seconds of a livestream and in catch-up, else seconds from the start
 * @property {number} bitrate bits per second
 * @property {number} width
 * @property {number} height
 *
 * @typedef {object} RunningSession
 * @property {string} sessionId
 * @property {string} assetId
 * @property {string} deviceId
 * @property {string} deviceModel
 * @property {string} deviceType
 * @property {number} since
 */

/** Seconds; the next heartbeat is due after ten. */
const HEARTBEAT_TIMEOUT = 8;
/** A license server may be asked twice by the service, and needs seconds itself. */
const LICENSE_TIMEOUT = 20;

export class Playback {
  #transport;
  #login;
  #device;

  /**
   * @param {import('./transport.js').Transport} transport
   * @param {import('./login.js').Login} login
   * @param {import('./client.js').DeviceOptions} device
   */
  constructor(transport, login, device) {
    this.#transport = transport;
    this.#login = login;
    this.#device = device;
  }

  /**
   * Whether the user may watch the asset at a position.
   * @param {string} assetId
   * @param {object} [options]
   * @param {number} [options.offset] seconds behind live, 0 or less
   * @param {string} [options.pinCode]
   * @param {string} [options.sessionId] of the session that asks, if it runs
   * @param {AbortSignal} [options.signal]
   * @returns {Promise<Entitlement>}
   */
  entitlement(assetId, { offset, pinCode, sessionId, signal } = {}) {
    const behind = offset === undefined ? 0 : Math.max(-86_400, Math.min(0, Math.floor(offset)));
    const place = `api/entitlement/v2/asset/${encodeURIComponent(assetId)}${behind ? `?offset=${behind}` : ''}`;
    return this.#login.request('POST', place, {
      headers: { [this.#transport.header('Play-Session')]: sessionId },
      body: pinCode === undefined ? undefined : { pinCode },
      // A wrong PIN is counted once.
      retry: pinCode === undefined ? REPEAT : NEVER,
      signal,
    });
  }

  /**
   * Opens a session on this device.
   * @param {string} assetId
   * @param {{token: string, drm: Drm, protocol: Protocol, signal?: AbortSignal}} options
   * @returns {Promise<Prepared>}
   */
  async preflight(assetId, { token, drm, protocol, signal }) {
    const asked = performance.now();
    const name = (/** @type {string} */ rest) => this.#transport.header(`Play-${rest}`);
    const playbackHeaders = {
      [name('DRM')]: drm,
      [name('Protocol')]: protocol,
      [name('DevicePlatform')]: this.#device.platform,
      [name('DeviceType')]: this.#device.type,
      [name('DeviceModel')]: this.#device.model,
      [name('DeviceId')]: await this.#login.deviceId,
      [name('EntitlementId')]: token,
    };
    const place = `api/playback/v2/preflight/asset/${encodeURIComponent(assetId)}`;
    const answer = await this.#login.request('POST', place, { headers: playbackHeaders, signal });
    const headers = { ...playbackHeaders, ...answer.headers };
    return { ...answer, drm, protocol, asked, headers, sessionId: headers[name('Session')] };
  }

  /**
   * Puts a later entitlement into the requests of a session.
   * @param {Prepared} prepared
   * @param {string} token
   */
  renew(prepared, token) {
    prepared.headers[this.#transport.header('Play-EntitlementId')] = token;
  }

  /**
   * What a player sends with its own license requests.
   * @param {Prepared} prepared
   * @returns {Record<string, string>}
   */
  licenseHeaders(prepared) {
    const { user } = this.#login;
    return { ...this.#transport.partnerHeaders, ...prepared.headers, ...(user && { Authorization: `Bearer ${user.token}` }) };
  }

  /**
   * @param {Prepared} prepared
   * @param {ArrayBuffer | ArrayBufferView} challenge of the DRM system
   * @returns {Promise<ArrayBuffer>}
   */
  license(prepared, challenge) {
    const { license = '', headers } = prepared;
    const options = { headers, body: challenge, as: /** @type {const} */ ('bytes'), retry: REPEAT_LICENSE, timeout: LICENSE_TIMEOUT };
    return this.#login.request('POST', license, options);
  }

  /**
   * The application certificate of FairPlay.
   * @param {Prepared} prepared
   * @returns {Promise<ArrayBuffer>}
   */
  certificate({ certificate = 'api/playback/v1/fairplay/certificate' }) {
    return this.#transport.request('GET', certificate, { as: 'bytes' });
  }

  /**
   * A heartbeat is never repeated: the next one is due soon.
   * @param {Prepared} prepared
   * @param {Picture} picture
   * @param {AbortSignal} [signal]
   * @returns {Promise<{interval: number, serverTime: number}>}
   */
  heartbeat(prepared, { position, bitrate, width, height }, signal) {
    const name = (/** @type {string} */ rest) => this.#transport.header(`Play-${rest}`);
    const headers = {
      ...prepared.headers,
      [name('Timestamp')]: String(Math.floor(position)),
      [name('Bitrate')]: String(Math.round(bitrate)),
      [name('ResolutionWidth')]: String(Math.round(width)),
      [name('ResolutionHeight')]: String(Math.round(height)),
    };
    return this.#login.request('POST', prepared.heartbeat, { headers, retry: NEVER, timeout: HEARTBEAT_TIMEOUT, signal });
  }

  /**
   * Ends a session, also while the page closes.
   * @param {Prepared} prepared
   * @returns {Promise<void>}
   */
  end(prepared) {
    return this.#login.request('DELETE', prepared.heartbeat, { headers: prepared.headers, keepalive: true });
  }
}

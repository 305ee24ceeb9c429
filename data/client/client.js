// The partner interface as one object. Its parts are the parts of the interface.

import { Account } from './account.js';
import { Guide } from './guide.js';
import { Login } from './login.js';
import { Playback } from './playback.js';
import { pause } from './retry.js';
import { Telemetry } from './telemetry.js';
import { Transport } from './transport.js';

/**
 * @typedef {object} DeviceOptions
 * @property {string} platform such as `web`, `android`, `tizen`
 * @property {string} type such as `browser`, `phone`, `tv`
 * @property {string} model
 *
 * @typedef {object} ClientOptions
 * @property {string} baseUrl address of the service
 * @property {string} partnerToken
 * @property {string} [headerPrefix] of the installation; `Service-` by default
 * @property {Partial<DeviceOptions> & {id?: string}} [device] the id is made and kept in the storage by default
 * @property {{name?: string, version?: string}} [app] reported in telemetry
 * @property {string} [language] of the messages for viewers; browsers send their own
 * @property {import('./storage.js').TokenStorage} [storage] `localStorage` by default
 * @property {() => Promise<import('./login.js').Credentials | null>} [credentials] shows the log-in. It is asked once when a request
 * needs a user and the token is missing or refused; null leaves the request refused
 * @property {(url: URL, init: RequestInit) => Promise<Response>} [fetch]
 */

/** Seconds that a log-out waits for the last events. */
const FAREWELL_SECONDS = 2;

/** Browsers by the word in their name for servers; each also has the words of those after it. */
const BROWSERS = ['Edg', 'OPR', 'Firefox', 'Chrome', 'Safari'];

/** @returns {DeviceOptions} */
function thisDevice() {
  const { userAgent = '' } = globalThis.navigator ?? {};
  const model = BROWSERS.find((name) => userAgent.includes(`${name}/`)) ?? 'unknown';
  const inBrowser = typeof document !== 'undefined';
  return { platform: inBrowser ? 'web' : 'node', type: inBrowser ? 'browser' : 'program', model };
}

export class PlaygateClient {
  #transport;
  #login;

  /** @param {ClientOptions} options */
  constructor(options) {
    const transport = new Transport(options);
    const login = new Login(transport, options);
    const device = { ...thisDevice(), ...options.device };
    this.#transport = transport;
    this.#login = login;
    /** Profile, password, PIN, devices, sessions, offers. */
    this.account = new Account(transport, login);
    /** Catalogue and schedule. */
    this.guide = new Guide(transport);
    /** Entitlement, preflight, license, heartbeat: the single requests. */
    this.playback = new Playback(transport, login, device);
    /** Events of the player. */
    this.telemetry = new Telemetry(login, transport.clock, device, options.app ?? {});
    /** @type {Map<string, import('./player-adapter.js').Way>} the DRM system and protocol that worked, by player */
    this.ways = new Map();
  }

  /** Who is logged in, or null. Read it after `ready`. */
  get user() {
    return this.#login.user;
  }

  /** Resolves when the storage has been read. */
  get ready() {
    return this.#login.ready;
  }

  /** The time of the service. */
  get clock() {
    return this.#transport.clock;
  }

  get baseUrl() {
    return this.#transport.baseUrl;
  }

  /** @returns {Promise<string>} the id by which the service counts this device */
  get deviceId() {
    return this.#login.deviceId;
  }

  /**
   * Creates a user, and logs in.
   * @param {string} identity the e-mail address
   * @param {string} accessKey the password
   * @param {import('./login.js').SignUpDetails} [details]
   */
  signUp(identity, accessKey, details) {
    return this.#login.signUp(identity, accessKey, details);
  }

  /**
   * @param {string} identity the e-mail address
   * @param {string} accessKey the password
   */
  logIn(identity, accessKey) {
    return this.#login.logIn(identity, accessKey);
  }

  /** Ends the log-in and all playback of the user. */
  async logOut() {
    // A service that is away must not keep the viewer logged in.
    await Promise.race([this.telemetry.flush(), pause(FAREWELL_SECONDS)]);
    await this.#login.logOut();
  }

  /**
   * Calls a function when somebody logs in or out, also in another tab.
   * @param {(user: import('./login.js').User | null) => void} listener
   * @returns {() => void} a function that stops it
   */
  onUserChange(listener) {
    const call = () => listener(this.user);
    this.#login.addEventListener('change', call);
    return () => this.#login.removeEventListener('change', call);
  }

  /**
   * Any request of the interface, for what has no function of its own.
   * @param {string} method
   * @param {string} path
   * @param {import('./transport.js').RequestOptions & {asUser?: boolean}} [options]
   */
  request(method, path, { asUser, ...options } = {}) {
    return asUser ? this.#login.request(method, path, options) : this.#transport.request(method, path, options);
  }

  /** Ends timers and listeners of a client that is not needed any more. */
  close() {
    this.telemetry.close();
    this.#login.close();
  }
}

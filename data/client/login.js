// Who is logged in: the user token, in storage and in memory, and what happens when the service refuses it.

import { PlaygateError } from './error.js';
import { REPEAT, REPEAT_ANSWERED } from './retry.js';
import { SafeStorage } from './storage.js';

/**
 * @typedef {object} User
 * @property {string} userId
 * @property {string} sessionId of the log-in
 * @property {string} token
 * @property {string} [name]
 *
 * @typedef {object} Credentials
 * @property {string} identity the e-mail address
 * @property {string} accessKey the password
 *
 * @typedef {{name?: string, locale?: string, country?: string, birthDate?: string}} SignUpDetails
 */

const PATH = 'api/login/v2/auth/email';

/** Fires `change` when somebody logs in or out, also in another tab. */
export class Login extends EventTarget {
  #transport;
  #storage;
  #credentials;
  #key;
  /** @type {User | null} */
  #user = null;
  /** @type {Promise<User | null> | null} */
  #renewal = null;
  /** @type {Promise<string>} */
  #device;
  /** Resolves when storage has been read. */
  ready;

  /**
   * @param {import('./transport.js').Transport} transport
   * @param {import('./client.js').ClientOptions} options
   */
  constructor(transport, { storage, credentials, device }) {
    super();
    this.#transport = transport;
    this.#storage = new SafeStorage(storage);
    this.#credentials = credentials;
    this.#key = `playgate:user:${transport.baseUrl}`;
    this.#device = device?.id ? Promise.resolve(device.id) : storedDevice(this.#storage, storage ?? globalThis);
    this.ready = this.#load().then((user) => void (this.#user ??= user));
    this.followTabs = this.followTabs.bind(this);
    globalThis.addEventListener?.('storage', this.followTabs);
  }

  /** Who is logged in, or null. */
  get user() {
    return this.#user;
  }

  /** The id of this device; it outlives the page, because devices are counted and registered by it. */
  get deviceId() {
    return this.#device;
  }

  /**
   * @param {string} identity the e-mail address
   * @param {string} accessKey the password
   */
  async logIn(identity, accessKey) {
    return this.#keep(await this.#send('POST', { identity, accessKey }, REPEAT));
  }

  /**
   * @param {string} identity
   * @param {string} accessKey
   * @param {SignUpDetails} [details]
   */
  async signUp(identity, accessKey, details) {
    // A second sign-up of the same address would be refused, and say nothing about the first.
    return this.#keep(await this.#send('PUT', { ...details, identity, accessKey }, REPEAT_ANSWERED));
  }

  /** Ends the log-in and all playback of the user. Whatever the service answers, this device forgets the token. */
  async logOut() {
    await this.ready;
    const user = this.#user;
    if (!user) return;
    await this.#set(null);
    const headers = { Authorization: `Bearer ${user.token}` };
    await this.#transport.request('POST', 'api/login/v2/auth/logout', { headers }).catch((error) => {
      if (error.code !== 'USER_TOKEN_INVALID') throw error; // it has ended already
    });
  }

  /** Forgets the user without a request, for example one that has been erased. */
  forget() {
    return this.#set(null);
  }

  /**
   * Who is logged in, after asking the application for credentials if nobody is.
   * @returns {Promise<User>}
   */
  async current() {
    await this.ready;
    const user = this.#user ?? (await this.#renew(null));
    if (!user) throw new PlaygateError('nobody is logged in', { code: 'NOT_LOGGED_IN' });
    return user;
  }

  /**
   * A request of the user. A token that is refused is renewed once, and the request repeated once.
   * @param {string} method
   * @param {string} path
   * @param {import('./transport.js').RequestOptions} [options]
   */
  async request(method, path, options = {}) {
    const user = await this.current();
    const send = (/** @type {User} */ { token }) =>
      this.#transport.request(method, path, { ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } });
    try {
      return await send(user);
    } catch (error) {
      if (!(error instanceof PlaygateError) || error.code !== 'USER_TOKEN_INVALID') throw error;
      const renewed = await this.#renew(user);
      if (!renewed) throw error;
      return send(renewed);
    }
  }

  /**
   * One renewal at a time: after a night of sleep, many requests find at once that their token has ended.
   * @param {User | null} refused
   * @returns {Promise<User | null>}
   */
  #renew(refused) {
    if (this.#user && this.#user.token !== refused?.token) return Promise.resolve(this.#user);
    this.#renewal ??= this.#replace(refused).finally(() => (this.#renewal = null));
    return this.#renewal;
  }

  /** @param {User | null} refused */
  async #replace(refused) {
    const stored = await this.#load();
    if (stored && stored.token !== refused?.token) {
      // Another tab has logged in again.
      await this.#set(stored);
      return stored;
    }
    if (refused) await this.#set(null);
    const credentials = await this.#credentials?.();
    return credentials ? this.logIn(credentials.identity, credentials.accessKey) : null;
  }

  /**
   * @param {'POST' | 'PUT'} method
   * @param {object} body
   * @param {import('./retry.js').RetryPolicy} retry
   */
  async #send(method, body, retry) {
    await this.ready;
    // Wrong passwords of strangers then do not lock this device out.
    const headers = { [this.#transport.header('Play-DeviceId')]: await this.#device };
    return this.#transport.request(method, PATH, { body, headers, retry });
  }

  /** @param {any} answer */
  async #keep({ token, userId, sessionId, name }) {
    const user = { token, userId, sessionId, name };
    await this.#set(user);
    return user;
  }

  /** @param {User | null} user */
  async #set(user) {
    this.#use(user);
    if (user) await this.#storage.set(this.#key, JSON.stringify(user));
    else await this.#storage.remove(this.#key);
  }

  /** @param {User | null} user */
  #use(user) {
    if (user?.token === this.#user?.token) return;
    this.#user = user;
    this.#transport.forget();
    this.dispatchEvent(new Event('change'));
  }

  /** @returns {Promise<User | null>} */
  async #load() {
    return parseUser(await this.#storage.get(this.#key));
  }

  /**
   * What another tab has stored counts here too.
   * @param {Event} event
   */
  followTabs(event) {
    const { key, newValue } = /** @type {StorageEvent} */ (event);
    if (key === this.#key || key === null) this.#use(parseUser(newValue));
  }

  /** Stops following other tabs. */
  close() {
    globalThis.removeEventListener?.('storage', this.followTabs);
  }
}

/** Ids by storage: two clients of a page that begin together are one device. @type {WeakMap<object, Promise<string>>} */
const devices = new WeakMap();

/**
 * @param {SafeStorage} storage
 * @param {object} place
 * @returns {Promise<string>}
 */
function storedDevice(storage, place) {
  const known = devices.get(place) ?? readDevice(storage);
  devices.set(place, known);
  return known;
}

/** @param {SafeStorage} storage */
async function readDevice(storage) {
  const key = 'playgate:device';
  const kept = await storage.get(key);
  if (kept) return kept;
  // `randomUUID` exists on https:// and localhost only, this everywhere.
  const id = [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join('');
  await storage.set(key, id);
  return id;
}

/**
 * @param {string | null} text
 * @returns {User | null}
 */
function parseUser(text) {
  try {
    const user = JSON.parse(text ?? 'null');
    return typeof user?.token === 'string' && typeof user.userId === 'string' ? user : null;
  } catch {
    return null; // another program's, or cut
  }
}

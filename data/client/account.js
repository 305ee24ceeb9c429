// What a user does with the own account.

import { REPEAT_ANSWERED } from './retry.js';

/**
 * @typedef {object} Profile
 * @property {string} userId
 * @property {string} email
 * @property {string} [name]
 * @property {string} [country]
 * @property {string} [locale]
 * @property {string} [birthDate]
 * @property {number} createdTimestamp
 * @property {string[]} tags
 * @property {{enabled: boolean, limit: number}} parentalControl
 *
 * @typedef {object} Device
 * @property {string} deviceId
 * @property {string} devicePlatform
 * @property {string} deviceType
 * @property {string} deviceModel
 * @property {number} since
 * @property {number} lastStart
 *
 * @typedef {object} OfferOfUser
 * @property {string} offerId
 * @property {string} [type]
 * @property {'active' | 'expired' | 'revoked'} state
 * @property {number} [purchasedAt]
 * @property {number} [expiry]
 *
 * @typedef {{kind: 'login', sessionId: string, createdTimestamp: number, expires: number, current: boolean}} LoginSession
 * @typedef {{kind: 'playback'} & import('./playback.js').RunningSession} PlaybackSessionRecord
 */

export class Account {
  #transport;
  #login;

  /**
   * @param {import('./transport.js').Transport} transport
   * @param {import('./login.js').Login} login
   */
  constructor(transport, login) {
    this.#transport = transport;
    this.#login = login;
  }

  /**
   * Mails a link for a new password, if the address has an account.
   * @param {string} email
   * @param {string} [locale]
   */
  sendPasswordReset(email, locale) {
    const body = { email, locale };
    return this.#transport.request('POST', 'api/login/v2/password/send-reset-password', { body, retry: REPEAT_ANSWERED });
  }

  /**
   * @param {string} token of the mail
   * @param {string} password the new one
   */
  resetPassword(token, password) {
    // The same token with the same password is accepted again.
    return this.#transport.request('POST', 'api/login/v2/password/reset', { body: { token, password } });
  }

  /** @returns {Promise<Profile>} */
  profile() {
    return this.#request('GET', '');
  }

  /**
   * @param {{name?: string, locale?: string, birthDate?: string, parentalControl?: Profile['parentalControl'], pinCode?: string}} changes
   * `birthDate` and `parentalControl` need the PIN once there is one
   * @returns {Promise<Profile>}
   */
  update(changes) {
    return this.#request('PUT', '', changes);
  }

  /**
   * @param {string} email
   * @param {string} password the present one
   * @returns {Promise<Profile>}
   */
  changeEmail(email, password) {
    return this.#request('PUT', '/email', { email, password });
  }

  /**
   * Ends the other log-ins.
   * @param {string} currentPassword
   * @param {string} newPassword
   */
  changePassword(currentPassword, newPassword) {
    return this.#request('PUT', '/password', { currentPassword, newPassword });
  }

  /**
   * @param {string} newPinCode
   * @param {{pinCode: string} | {password: string}} proof the present PIN; for the first PIN the password
   */
  changePin(newPinCode, proof) {
    return this.#request('PUT', '/pin', { ...proof, newPinCode });
  }

  /** Mails a new PIN. */
  resetPin() {
    return this.#request('POST', '/pin/reset');
  }

  /** @returns {Promise<Device[]>} */
  devices() {
    return this.#request('GET', '/devices');
  }

  /**
   * @param {string} deviceId
   * @returns {Promise<Device>}
   */
  device(deviceId) {
    return this.#request('GET', `/devices/${encodeURIComponent(deviceId)}`);
  }

  /** @param {string} deviceId */
  removeDevice(deviceId) {
    return this.#request('DELETE', `/devices/${encodeURIComponent(deviceId)}`);
  }

  removeDevices() {
    return this.#request('DELETE', '/devices');
  }

  /** @returns {Promise<(LoginSession | PlaybackSessionRecord)[]>} log-ins and playback, told apart by `kind` */
  sessions() {
    return this.#request('GET', '/sessions');
  }

  /**
   * @param {string} sessionId
   * @returns {Promise<LoginSession | PlaybackSessionRecord>}
   */
  session(sessionId) {
    return this.#request('GET', `/sessions/${encodeURIComponent(sessionId)}`);
  }

  /** @param {string} sessionId */
  endSession(sessionId) {
    return this.#request('DELETE', `/sessions/${encodeURIComponent(sessionId)}`);
  }

  /** Ends all, with the log-in of this device. */
  endSessions() {
    return this.#request('DELETE', '/sessions');
  }

  /** @returns {Promise<OfferOfUser[]>} */
  offers() {
    return this.#request('GET', '/offers');
  }

  /** All data about the user. */
  export() {
    return this.#request('GET', '/export');
  }

  /**
   * Erases the account, which cannot be undone, and forgets the user.
   * @param {string} password
   */
  async erase(password) {
    await this.#request('DELETE', '', { password });
    await this.#login.forget();
  }

  /**
   * @param {string} method
   * @param {string} path below the user
   * @param {object} [body]
   */
  async #request(method, path, body) {
    const { userId } = await this.#login.current();
    const options = method === 'GET' ? {} : { body, retry: REPEAT_ANSWERED };
    return this.#login.request(method, `api/user/v1/users/${encodeURIComponent(userId)}${path}`, options);
  }
}

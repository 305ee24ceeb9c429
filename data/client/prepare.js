// The way to a running session: entitlement with its PIN, and a preflight with the first DRM system and protocol that player, asset
// and service have in common.

import { PlaygateError } from './error.js';

/**
 * @typedef {import('./player-adapter.js').Way} Way
 * @typedef {import('./player-adapter.js').Questions} Questions
 * @typedef {import('./client.js').PlaygateClient} PlaygateClient
 */

/** Codes that another DRM system or protocol may get round. */
const NEXT_WAY = ['PROTOCOL_NOT_AVAILABLE', 'DRM_PROTOCOL_MISMATCH'];

/**
 * Asks for entitlement, and for the PIN as long as one is wanted. Rejects with the refusal; if the viewer gives no PIN, with that of the
 * PIN.
 * @param {PlaygateClient} client
 * @param {string} assetId
 * @param {object} options
 * @param {number} [options.offset]
 * @param {string} [options.sessionId]
 * @param {AbortSignal} options.signal
 * @param {Questions} questions
 * @param {(error: PlaygateError) => void} onPin before the viewer is asked
 */
export async function entitle(client, assetId, options, { askPin }, onPin) {
  let pinCode;
  for (;;) {
    try {
      return await client.playback.entitlement(assetId, { ...options, pinCode });
    } catch (error) {
      const wanted = error instanceof PlaygateError && ['PIN_CODE_REQUIRED', 'PIN_CODE_WRONG'].includes(error.code);
      // A PIN without the form of one is 400, and not counted.
      const malformed = pinCode !== undefined && error instanceof PlaygateError && error.status === 400;
      if (!wanted && !malformed) throw error;
      onPin(error);
      pinCode = (await askPin?.(error, options.signal)) ?? undefined;
      if (pinCode === undefined || options.signal.aborted) throw error;
    }
  }
}

/**
 * The Unix time of second 0 of a broadcast that is over; undefined of a film.
 * @param {PlaygateClient} client
 * @param {string} assetId
 */
export async function broadcastStart(client, assetId) {
  const found = await client.guide.broadcasts([assetId]).catch(() => undefined);
  const broadcast = found?.[assetId];
  return broadcast?.streamStart ?? broadcast?.start;
}

/**
 * What an adapter loads.
 * @param {PlaygateClient} client
 * @param {import('./playback.js').Prepared} prepared
 * @param {number} [position]
 * @returns {import('./player-adapter.js').Source}
 */
export function sourceOf({ playback }, prepared, position) {
  return {
    prepared,
    position,
    licenseHeaders: () => playback.licenseHeaders(prepared),
    license: (challenge) => playback.license(prepared, challenge),
    certificate: () => playback.certificate(prepared),
  };
}

/**
 * Opens a session. Where the user has reached a limit, the viewer may end a stream or remove a device.
 * @param {PlaygateClient} client
 * @param {string} assetId
 * @param {string} token
 * @param {import('./player-adapter.js').PlayerAdapter} adapter
 * @param {AbortSignal} signal
 * @param {Questions} questions
 * @returns {Promise<import('./playback.js').Prepared>}
 */
export async function prepare(client, assetId, token, adapter, signal, questions) {
  for (;;) {
    try {
      return await inFirstWay(client, assetId, token, adapter, signal);
    } catch (error) {
      if (!(error instanceof PlaygateError) || !(await makeRoom(client, error, signal, questions))) throw error;
    }
  }
}

/**
 * @param {PlaygateClient} client
 * @param {string} assetId
 * @param {string} token
 * @param {import('./player-adapter.js').PlayerAdapter} adapter
 * @param {AbortSignal} signal
 */
async function inFirstWay(client, assetId, token, adapter, signal) {
  const ways = await adapter.ways();
  const known = client.ways.get(adapter.name);
  // What worked before comes first, so that the refusals of the others are seen once.
  const isKnown = (/** @type {Way} */ way) => way.drm === known?.drm && way.protocol === known.protocol;
  const ordered = [...ways.filter(isKnown), ...ways.filter((way) => !isKnown(way))];
  const message = 'no DRM system for this player here: browsers decrypt only on https:// and on localhost';
  let refused = new PlaygateError(message, { code: 'DRM_NOT_SUPPORTED' });
  for (const way of ordered) {
    try {
      const prepared = await client.playback.preflight(assetId, { ...way, token, signal });
      if (prepared.license) client.ways.set(adapter.name, way);
      return prepared;
    } catch (error) {
      if (!(error instanceof PlaygateError) || !NEXT_WAY.includes(error.code)) throw error;
      // That an encrypted asset is not to be had in the clear is no explanation for a viewer.
      if (way.drm !== 'none') refused = error;
    }
  }
  throw refused;
}

/**
 * @param {PlaygateClient} client
 * @param {PlaygateError} error
 * @param {AbortSignal} signal
 * @param {Questions} questions
 * @returns {Promise<boolean>} whether there is room now
 */
async function makeRoom(client, error, signal, { chooseSession, chooseDevice }) {
  if (error.code === 'STREAM_LIMIT_REACHED') {
    const sessionId = await chooseSession?.(error.details.sessions ?? [], error, signal);
    if (sessionId && !signal.aborted) return client.account.endSession(sessionId).then(() => true);
  }
  if (error.code === 'DEVICE_LIMIT_REACHED' && chooseDevice) {
    const deviceId = await chooseDevice(await client.account.devices(), error, signal);
    if (deviceId && !signal.aborted) return client.account.removeDevice(deviceId).then(() => true);
  }
  return false;
}

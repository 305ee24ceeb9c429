// Key systems: which ones this browser has, and what their failures mean.

import { PlaygateError } from './error.js';

/** @typedef {import('./playback.js').Drm} Drm */

/** Names of each system for browsers, the best first. @type {Record<string, string[]>} */
export const KEY_SYSTEMS = {
  widevine: ['com.widevine.alpha'],
  playready: ['com.microsoft.playready.recommendation', 'com.microsoft.playready'],
  fairplay: ['com.apple.fps'],
  clearkey: ['org.w3.clearkey'],
};

const CODECS = ['video/mp4; codecs="avc1.42E01E"', 'video/mp4; codecs="vp09.00.10.08"', 'video/mp4; codecs="av01.0.04M.08"'];

/** @type {MediaKeySystemConfiguration[]} */
const WANTED = [
  { initDataTypes: ['cenc', 'keyids', 'sinf', 'skd'], videoCapabilities: CODECS.map((contentType) => ({ contentType })) },
];

/**
 * Access to a system, under the first of its names that the browser knows.
 * @param {string} drm
 * @returns {Promise<MediaKeySystemAccess | null>} null also on pages that are neither https:// nor on localhost
 */
export async function keySystem(drm) {
  for (const name of KEY_SYSTEMS[drm] ?? []) {
    const access = await globalThis.navigator?.requestMediaKeySystemAccess?.(name, WANTED).catch(() => null);
    if (access) return access;
  }
  return null;
}

/**
 * Those of the systems that this browser has.
 * @param {Drm[]} systems
 * @returns {Promise<Drm[]>}
 */
export async function available(systems) {
  const found = await Promise.all(systems.map(keySystem));
  return systems.filter((_, i) => found[i]);
}

/**
 * The failure of a player, `NO_ANSWER` if a request had none. What the service said about a license, a playlist or a segment counts more than the player's own code.
 * @param {string} message
 * @param {{request?: boolean, status?: number, text?: unknown, cause?: unknown}} [facts] `request` says whether a request failed, `text`
 * is the body of its answer
 */
export function playerError(message, { request, status, text, cause } = {}) {
  try {
    const { error } = JSON.parse(text instanceof ArrayBuffer ? new TextDecoder().decode(text) : String(text));
    const { code, details, user_message: userMessage } = error;
    return new PlaygateError(error.message, { status, code, details, userMessage, cause });
  } catch {
    const lost = request && (!status || status === 429 || status >= 500);
    return new PlaygateError(message, { code: lost ? 'NO_ANSWER' : 'PLAYER_FAILED', cause });
  }
}

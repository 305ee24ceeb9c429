// What the refusal of a heartbeat, of a license or of media obliges a player to do, as the table of docs/clients.md says.

/** @typedef {import('./error.js').PlaygateError} PlaygateError */

/** Refusals of a position in a livestream. @param {PlaygateError} error */
export const isOfRights = ({ code }) => code === 'NO_LIVE_RIGHTS' || code === 'NOT_AVAILABLE';

/** Another entitlement helps. @param {PlaygateError} error */
export const isOfEntitlement = ({ code }) => code === 'ENTITLEMENT_EXPIRED' || code === 'ENTITLEMENT_INVALID';

/** Another session helps. @param {PlaygateError} error */
export const isOfSession = ({ code }) => ['SESSION_NOT_FOUND', 'SESSION_MISMATCH', 'PLAYLIST_TOKEN_INVALID'].includes(code);

/** Time helps: no answer, or one of a service that is busy or has failed. @param {PlaygateError} error */
export const isPassing = ({ status, code }) =>
  code === 'NO_ANSWER' || code === 'BAD_ANSWER' || status === 429 || (status >= 500 && status !== 552);

/**
 * @param {PlaygateError} error of a heartbeat
 * @returns {'hold-live' | 'hold' | 'ask-pin' | 'renew' | 'end' | 'play-on'} `end` also where a new session may take its place
 */
export function ofHeartbeat(error) {
  const { status, code } = error;
  if (status === 552) return 'hold-live';
  if (isOfRights(error)) return 'hold';
  if (code === 'PIN_CODE_REQUIRED') return 'ask-pin';
  if (isOfEntitlement(error)) return 'renew';
  // A 404 that is not Playgate's, and anything else, says nothing about the session.
  if (code === 'NOT_LOGGED_IN' || ([401, 403, 404, 410].includes(status) && code !== 'BAD_ANSWER')) return 'end';
  return 'play-on';
}

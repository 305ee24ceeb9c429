// The one class of errors of this package.

/**
 * What an error says besides its text; members that a case does not have are absent.
 * @typedef {object} ErrorDetails
 * @property {string} [field]
 * @property {{field: string, message: string}[]} [problems] every mistake of a request
 * @property {number} [attemptsLeft] how often the PIN may still be tried
 * @property {number} [retryAfter] seconds
 * @property {string} [reason] why a session has ended
 * @property {import('./playback.js').RunningSession[]} [sessions] the sessions that use the streams of the user
 * @property {number} [status] the status of the license server
 */

/**
 * @typedef {object} ErrorFacts
 * @property {number} [status]
 * @property {string} code
 * @property {string} [userMessage]
 * @property {ErrorDetails} [details]
 * @property {number} [retryAfter]
 * @property {string} [requestId]
 * @property {unknown} [cause]
 */

/** Words for viewers where the service could not say any. Applications with other languages go by `code`. */
/** @type {Record<string, string>} */
const WORDS = {
  NO_ANSWER: 'The service cannot be reached. Check the connection.',
  NOT_LOGGED_IN: 'Please log in.',
  PLAYER_FAILED: 'This cannot be played at present.',
  START_TIMEOUT: 'The video does not start. Please try again.',
  DRM_NOT_SUPPORTED: 'This device cannot play this title.',
};

/**
 * A request that was refused or got no answer, or playback that failed.
 *
 * `code` is stable: decide by `status`, then by `code`. The service has the codes of docs/interface.md. This package adds
 * `NO_ANSWER`, `BAD_ANSWER` (no answer of Playgate), `ABORTED`, `NOT_LOGGED_IN`, `INVALID_OPTION`, `PLAYER_FAILED`,
 * `START_TIMEOUT` and `DRM_NOT_SUPPORTED`, all with the status 0.
 */
export class PlaygateError extends Error {
  name = 'PlaygateError';

  /**
   * @param {string} message for developers
   * @param {ErrorFacts} facts
   */
  constructor(message, { status = 0, code, userMessage, details = {}, retryAfter, requestId, cause }) {
    super(message, { cause });
    /** The HTTP status, or 0 without an answer. */
    this.status = status;
    this.code = code;
    /** Words for the viewer, in the viewer's language if the service said them. */
    this.userMessage = userMessage ?? WORDS[code] ?? WORDS.PLAYER_FAILED;
    this.details = details;
    /** Seconds after which the request may be repeated, or undefined. */
    this.retryAfter = retryAfter;
    /** What an operator finds the request by. */
    this.requestId = requestId;
  }
}

/**
 * @param {unknown} error
 * @returns {PlaygateError} the error itself, or one around it
 */
export function asPlaygateError(error) {
  if (error instanceof PlaygateError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new PlaygateError(message, { code: 'PLAYER_FAILED', cause: error });
}

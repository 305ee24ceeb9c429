// Which answer a request may be repeated after, and when, as docs/clients.md says.

import { PlaygateError } from './error.js';

/**
 * @typedef {object} RetryPolicy
 * @property {number} repeats how often a request is repeated at most
 * @property {boolean} [whenLost] whether also without an answer; false if a second one could do harm
 */

/** A request that reads, or that has the same effect if it is made twice. */
export const REPEAT = { repeats: 3, whenLost: true };
/** A request that changes something: only after an answer that says that nothing was done. */
export const REPEAT_ANSWERED = { repeats: 3 };
/** A license: the license server gets two more chances. */
export const REPEAT_LICENSE = { repeats: 2, whenLost: true };
export const NEVER = { repeats: 0 };

/** Seconds that a request may wait for `Retry-After` without anybody being asked. */
const LONGEST_WAIT = 30;
/** A viewer made these refusals, and has to be told. */
const OF_VIEWERS = ['TOO_MANY_ATTEMPTS', 'PIN_CODE_LOCKED'];

/**
 * Seconds before the repetition: 1, 2, 4 … 60. Up to half more, so that players which a failure has stopped do not come back in
 * step.
 * @param {number} nth 1 for the first repetition
 */
export const backOff = (nth) => Math.min(60, 2 ** (nth - 1)) * (1 + Math.random() / 2);

/**
 * Seconds to wait before a request is repeated, or null if it must not be.
 * @param {PlaygateError} error
 * @param {RetryPolicy} policy
 * @param {number} nth 1 for the first repetition
 * @returns {number | null}
 */
export function pauseBefore(error, { repeats, whenLost }, nth) {
  const { status, code, retryAfter } = error;
  if (nth > repeats || OF_VIEWERS.includes(code)) return null;
  if (retryAfter !== undefined && retryAfter > LONGEST_WAIT) return null;
  if (status === 429 || status === 503) return retryAfter === undefined ? backOff(nth) : Math.max(retryAfter, 1);
  // 552 is inside the class of failures and none: the program has no live rights.
  const failed = status >= 500 && status !== 552;
  return whenLost && (failed || code === 'NO_ANSWER') ? backOff(nth) : null;
}

/**
 * @param {number} seconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(new PlaygateError('the request was aborted', { code: 'ABORTED' }));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', end);
      resolve();
    }, seconds * 1000);
    if (signal?.aborted) end();
    else signal?.addEventListener('abort', end, { once: true });
  });
}

// Requests: headers, time limit, repetitions, and an answer or an error. It knows no route.

import { AnswerCache } from './cache.js';
import { Clock } from './clock.js';
import { PlaygateError } from './error.js';
import { REPEAT, pause, pauseBefore } from './retry.js';

/** @typedef {import('./retry.js').RetryPolicy} RetryPolicy */

/**
 * @typedef {object} RequestOptions
 * @property {Record<string, string | undefined>} [headers]
 * @property {unknown} [body] sent as JSON, but for bytes
 * @property {'json' | 'text' | 'bytes'} [as] what the answer is; JSON by default
 * @property {RetryPolicy} [retry]
 * @property {boolean} [keepalive] lets the request outlive the page; its body has 64 KiB at most
 * @property {boolean} [cached] answers from the cache while it is fresh
 * @property {AbortSignal} [signal]
 * @property {number} [timeout] seconds for the whole answer
 */

/** Seconds; the service answers within a second or refuses. */
const TIMEOUT = 15;
/** Characters of an answer that is not Playgate's, in the error. */
const QUOTED = 80;

export class Transport {
  clock = new Clock();
  #cache = new AnswerCache();
  #base;
  #partnerToken;
  #prefix;
  #language;
  #fetch;

  /** @param {import('./client.js').ClientOptions} options */
  constructor({ baseUrl, partnerToken, headerPrefix = 'Service-', language, fetch: send }) {
    this.#base = parseBase(baseUrl);
    if (typeof partnerToken !== 'string' || !partnerToken.trim()) throw invalid('partnerToken is missing');
    this.#partnerToken = partnerToken.trim();
    this.#prefix = headerPrefix;
    this.#language = language;
    this.#fetch = send ?? ((/** @type {URL} */ url, /** @type {RequestInit} */ init) => globalThis.fetch(url, init));
  }

  /** The address of the service, with a slash at the end. */
  get baseUrl() {
    return this.#base.href;
  }

  /**
   * A header name of this installation.
   * @param {string} rest
   */
  header(rest) {
    return this.#prefix + rest;
  }

  /** @returns {Record<string, string>} */
  get partnerHeaders() {
    return { [this.header('AccessToken')]: this.#partnerToken };
  }

  /** Forgets the answers that belong to a user. */
  forget() {
    this.#cache.clear();
  }

  /**
   * Sends a request, and repeats it as its policy allows.
   * @param {string} method
   * @param {string} path relative to the base, or an absolute address of an earlier answer
   * @param {RequestOptions} [options]
   * @returns {Promise<any>} the body
   */
  async request(method, path, options = {}) {
    const url = new URL(path, this.#base);
    const kept = options.cached ? this.#cache.fresh(url.href) : undefined;
    if (kept !== undefined) return parse(kept, options.as, url);
    for (let nth = 1; ; nth += 1) {
      try {
        return await this.#once(method, url, options);
      } catch (error) {
        const seconds = error instanceof PlaygateError ? pauseBefore(error, options.retry ?? REPEAT, nth) : null;
        if (seconds === null) throw error;
        await pause(seconds, options.signal);
      }
    }
  }

  /**
   * @param {string} method
   * @param {URL} url
   * @param {RequestOptions} options
   */
  async #once(method, url, options) {
    const { as, cached, keepalive, timeout = TIMEOUT } = options;
    const bytes = options.body instanceof ArrayBuffer || ArrayBuffer.isView(options.body);
    const body = /** @type {BodyInit | undefined} */ (bytes ? options.body : JSON.stringify(options.body));
    const headers = {
      ...this.partnerHeaders,
      ...(this.#language && { 'Accept-Language': this.#language }),
      ...(body !== undefined && !bytes && { 'Content-Type': 'application/json' }),
      ...(cached && this.#cache.revalidate(url.href)),
      ...options.headers,
    };
    const { signal, release } = limit(timeout, options.signal);
    const sent = Date.now() / 1000;
    try {
      const init = { method, headers: defined(headers), body, keepalive, signal, credentials: 'omit' };
      const response = await this.#fetch(url, /** @type {RequestInit} */ (init));
      this.clock.observe(Date.parse(response.headers.get('Date') ?? '') / 1000, sent);
      if (response.ok && as === 'bytes') return await response.arrayBuffer();
      const text = await response.text();
      if (!response.ok && response.status !== 304) throw refusal(response, text, url);
      return parse(cached ? this.#cache.take(url.href, response, text) : text, as, url);
    } catch (error) {
      throw error instanceof PlaygateError ? error : noAnswer(url, error, options.signal);
    } finally {
      release();
    }
  }
}

/** @param {string} message */
function invalid(message) {
  return new PlaygateError(message, { code: 'INVALID_OPTION' });
}

/** @param {unknown} baseUrl */
function parseBase(baseUrl) {
  // An empty one would be the address of the page.
  if (!baseUrl) throw invalid('baseUrl is missing');
  let url;
  try {
    url = new URL(String(baseUrl), globalThis.location?.href);
  } catch {
    throw invalid(`baseUrl is no address: ${baseUrl}`);
  }
  if (!/^https?:$/.test(url.protocol)) throw invalid(`baseUrl begins with neither http:// nor https://: ${baseUrl}`);
  url.search = url.hash = '';
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

/**
 * A signal for both limits. `AbortSignal.any` is missing in browsers of 2023.
 * @param {number} seconds
 * @param {AbortSignal} [outer]
 */
function limit(seconds, outer) {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const timer = setTimeout(abort, seconds * 1000);
  if (outer?.aborted) abort();
  outer?.addEventListener('abort', abort);
  const release = () => {
    clearTimeout(timer);
    outer?.removeEventListener('abort', abort);
  };
  return { signal: controller.signal, release };
}

/**
 * Without members that have no value: `fetch` would send the word.
 * @param {Record<string, string | undefined>} headers
 */
function defined(headers) {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined));
}

/**
 * @param {string} text
 * @param {RequestOptions['as']} as
 * @param {URL} url
 */
function parse(text, as, url) {
  if (as === 'text') return text;
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = `${url.origin} answered something else than Playgate does: ${text.slice(0, QUOTED)}`;
    throw new PlaygateError(message, { code: 'BAD_ANSWER', cause });
  }
}

/**
 * @param {Response} response
 * @param {string} text
 * @param {URL} url
 */
function refusal(response, text, url) {
  const { status, headers } = response;
  let said;
  try {
    said = JSON.parse(text).error;
  } catch {
    said = undefined;
  }
  const seconds = headers.get('Retry-After') ?? said?.details?.retryAfter;
  return new PlaygateError(said?.message ?? `${status} without an error of Playgate from ${url.origin}${url.pathname}`, {
    status,
    code: said?.code ?? 'BAD_ANSWER',
    userMessage: said?.user_message,
    details: said?.details,
    retryAfter: seconds == null || Number.isNaN(Number(seconds)) ? undefined : Number(seconds),
    requestId: headers.get('X-Request-Id') ?? undefined,
  });
}

/**
 * Browsers do not say why there was no answer.
 * @param {URL} url
 * @param {unknown} cause
 * @param {AbortSignal} [signal] the caller's
 */
function noAnswer(url, cause, signal) {
  if (signal?.aborted) return new PlaygateError('the request was aborted', { code: 'ABORTED', cause });
  const message =
    `no answer from ${url.origin}: the address is wrong, the network is away, the answer took too long, ` +
    'or the service does not allow requests of this page (CORS)';
  return new PlaygateError(message, { code: 'NO_ANSWER', cause });
}

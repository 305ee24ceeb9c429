// Answers of the schedule and the catalogue, as long as they are fresh, and their ETags after that. Applications outside of browsers
// have no cache; in browsers the cache of the page would not keep what another application asked with another token.

/** Answers that are kept: a guide of two weeks, and the catalogue. */
const KEPT = 32;

export class AnswerCache {
  /** @type {Map<string, {text: string, etag: string, until: number}>} */
  #kept = new Map();

  /**
   * The body that needs no request.
   * @param {string} url
   */
  fresh(url) {
    const kept = this.#kept.get(url);
    return kept && performance.now() < kept.until ? kept.text : undefined;
  }

  /**
   * Headers that ask whether the kept body is still right.
   * @param {string} url
   * @returns {Record<string, string>}
   */
  revalidate(url) {
    const etag = this.#kept.get(url)?.etag;
    return etag ? { 'If-None-Match': etag } : {};
  }

  /**
   * The body of an answer: its own, or the kept one if that has not changed.
   * @param {string} url
   * @param {Response} response
   * @param {string} text
   */
  take(url, response, text) {
    const body = response.status === 304 ? (this.#kept.get(url)?.text ?? '') : text;
    const etag = response.headers.get('ETag');
    if (!etag || (response.status !== 304 && !response.ok)) return body;
    const age = /max-age=(\d+)/.exec(response.headers.get('Cache-Control') ?? '')?.[1];
    this.#kept.delete(url); // to the end of the line
    this.#kept.set(url, { text: body, etag, until: performance.now() + Number(age ?? 0) * 1000 });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT && oldest !== undefined) this.#kept.delete(oldest);
    return body;
  }

  clear() {
    this.#kept.clear();
  }
}

// A `fetch` for the packages that reports each request and its answer to the page, which shows them.

const SHOWN_HEADERS = ['retry-after', 'etag', 'www-authenticate', 'x-playgate-fault', 'x-request-id'];

const textOf = (body) => (body === undefined || typeof body === 'string' ? body : new TextDecoder().decode(body));

/** A body as it is shown: JSON, text, or of media how long it is. */
async function bodyOf(response, media) {
  if (media && response.ok) return `${Number(response.headers.get('Content-Length') ?? 0).toLocaleString()} bytes`;
  const text = await response.clone().text();
  try {
    return text === '' ? null : JSON.parse(text);
  } catch {
    return text;
  }
}

export class Recorder {
  #report;
  #count = 0;

  /** `report` is called when a request is sent, and again with its `answer`. */
  constructor(report) {
    this.#report = report;
  }

  /** Requests of media are shown apart. */
  fetch(media = false) {
    return async (url, init = {}) => {
      const { method = 'GET', headers = {}, body } = init;
      const call = { id: (this.#count += 1), at: Date.now(), method, url, headers, shown: textOf(body), media };
      const begin = performance.now();
      const answered = (answer) => this.#report({ ...call, answer, ms: performance.now() - begin });
      this.#report({ ...call, pending: true });
      try {
        const response = await fetch(url, init);
        const shown = await bodyOf(response, media);
        const kept = SHOWN_HEADERS.filter((name) => response.headers.has(name)).map((name) => [name, response.headers.get(name)]);
        answered({ status: response.status, code: shown?.error?.code, headers: kept, body: shown });
        return response;
      } catch (error) {
        answered({ status: 0, headers: [], body: null });
        throw error;
      }
    };
  }
}

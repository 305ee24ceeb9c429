// A service that answers as the tests say. It is handed to the client as `fetch`, so that no test waits for a network.

/** @typedef {{status?: number, body?: unknown, headers?: Record<string, string>, lost?: boolean, text?: string}} Answer */

const PROGRAM_SECONDS = 1800;

/** An error body of the interface. */
export const refused = (status, code, details, headers) => ({
  status,
  headers,
  body: { error: { message: `${code} for developers`, user_message: `${code} for viewers`, code, details } },
});

export class Service {
  /** Requests in their order: {at, method, path, query, headers, body}. */
  calls = [];
  /** Seconds that the clock of the service is ahead of the machine's. */
  ahead = 0;
  live = true;
  #planned = new Map();
  #always = new Map();
  #sessions = 0;
  tokens = new Set(['first']);

  /** The next answers to `METHOD name`, where name is the last part of the path; a function gets the call. */
  plan(route, ...answers) {
    this.#planned.set(route, [...(this.#planned.get(route) ?? []), ...answers]);
  }

  /** The answer from now on. */
  always(route, answer) {
    this.#always.set(route, answer);
  }

  count(route) {
    return this.calls.filter((call) => call.route === route).length;
  }

  last(route) {
    return this.calls.filter((call) => call.route === route).at(-1);
  }

  now() {
    return Date.now() / 1000 + this.ahead;
  }

  fetch = async (url, init) => {
    if (init.signal?.aborted) throw new DOMException('aborted', 'AbortError'); // as in browsers, without a request
    const { pathname, search } = new URL(url);
    const name = pathname.split('/').filter(Boolean);
    const route = `${init.method} ${ROUTES.find((known) => name.includes(known)) ?? name.at(-1)}`;
    const body = typeof init.body === 'string' ? JSON.parse(init.body) : init.body;
    const call = { at: Date.now(), route, path: pathname, query: search, headers: init.headers, body, keepalive: init.keepalive };
    this.calls.push(call);
    const planned = this.#planned.get(route)?.shift() ?? this.#always.get(route) ?? ((one) => this.#ordinary(one));
    const answer = typeof planned === 'function' ? await planned(call) : planned;
    if (init.signal?.aborted) throw new DOMException('aborted', 'AbortError');
    if (answer.lost) throw new TypeError('fetch failed');
    if (answer.hangs) return new Promise((_, reject) => init.signal.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError'))));
    const headers = { Date: new Date(this.now() * 1000).toUTCString(), 'X-Request-Id': `r${this.calls.length}`, ...answer.headers };
    const status = answer.status ?? 200;
    const text = answer.text ?? (answer.body === undefined ? '' : JSON.stringify(answer.body));
    return new Response([204, 304].includes(status) ? null : text, { status, headers });
  };

  #ordinary({ route, headers }) {
    const token = headers.Authorization?.slice('Bearer '.length);
    if (token !== undefined && !this.tokens.has(token)) return refused(401, 'USER_TOKEN_INVALID');
    const now = Math.floor(this.now());
    const make = {
      'POST email': () => this.#user(),
      'PUT email': () => this.#user(),
      'POST logout': () => ({ body: {} }),
      'POST entitlement': () => ({ body: { token: `pge_${this.calls.length}`, expires: now + 86_400, ...(this.live && { program: this.program() }) } }),
      'POST preflight': () => ({ body: this.#prepared(headers) }),
      'POST heartbeat': () => ({ body: { interval: 10, serverTime: now } }),
      'DELETE heartbeat': () => ({ status: 204 }),
      'POST telemetry-events': () => ({ status: 202, body: { accepted: 1, duplicates: 0, rejected: [] } }),
    }[route];
    return make ? make() : { body: {} };
  }

  program() {
    const nth = Math.floor(this.now() / PROGRAM_SECONDS);
    return { broadcastId: `b${nth}`, stop: (nth + 1) * PROGRAM_SECONDS };
  }

  #user() {
    const token = `token-${this.tokens.size}`;
    this.tokens.add(token);
    return { body: { token, userId: 'ann', sessionId: `login-${this.tokens.size}`, newUser: false } };
  }

  #prepared(headers) {
    const own = { 'Service-Play-EntitlementId': headers['Service-Play-EntitlementId'], 'Service-Play-Session': `s${(this.#sessions += 1)}` };
    return { playlist: 'http://media.test/live.mpd', heartbeat: 'http://service.test/api/playback/v1/heartbeat', heartbeatInterval: 10, headers: own };
  }
}

const ROUTES = ['entitlement', 'preflight', 'heartbeat', 'telemetry-events', 'license', 'logout'];

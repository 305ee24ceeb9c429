// The partner interface as a client calls it. Each request and its answer is reported as an event `call`, which the
// page shows; tokens are kept in this tab only.

const SHOWN_HEADERS = ['retry-after', 'etag', 'www-authenticate', 'x-playgate-fault', 'x-request-id'];
const MOST_IDS = 200;
/** Characters of the ids in a request, whose target has at most 8 KiB. */
const MOST_CHARACTERS = 6000;

/** The ids in lists that fit into one request each. */
function lists(ids) {
  const parts = [];
  let room = 0;
  for (const id of ids) {
    const length = encodeURIComponent(id).length + 1;
    if (room < length || parts.at(-1).length === MOST_IDS) {
      parts.push([]);
      room = MOST_CHARACTERS;
    }
    parts.at(-1).push(id);
    room -= length;
  }
  return parts;
}
const KEPT = 'playgate.lab.user';
const DEVICE = 'playgate.lab.device';

/** The device id must outlive the page: devices are counted and registered by it. */
function deviceId() {
  const id = localStorage.getItem(DEVICE) ?? `lab-${crypto.getRandomValues(new Uint32Array(2)).join('-')}`;
  localStorage.setItem(DEVICE, id);
  return id;
}

/** An answer: its status (0 without one), body (JSON or bytes), error object, and the seconds of Retry-After. */
class Answer {
  constructor(status, body, headers = new Headers()) {
    Object.assign(this, { status, body, headers });
  }

  get ok() {
    return this.status >= 200 && this.status < 300;
  }

  get code() {
    return this.body?.error?.code;
  }

  get message() {
    return this.body?.error?.user_message ?? (this.status === 0 ? 'The service cannot be reached.' : '');
  }

  /** Seconds to wait before the request may be repeated, or undefined. */
  get retryAfter() {
    const seconds = Number(this.headers.get('Retry-After') ?? this.body?.error?.details?.retryAfter ?? NaN);
    return Number.isFinite(seconds) ? seconds : undefined;
  }
}

export class Interface extends EventTarget {
  partnerToken = '';
  identity = '';
  accessKey = '';
  #prefix;
  #user = JSON.parse(sessionStorage.getItem(KEPT) ?? 'null'); // {identity, token, userId, sessionId}
  #count = 0;

  constructor(prefix) {
    super();
    this.#prefix = prefix;
    this.device = {
      [this.name('Play-DevicePlatform')]: 'web',
      [this.name('Play-DeviceType')]: 'browser',
      [this.name('Play-DeviceModel')]: 'Playgate lab player',
      [this.name('Play-DeviceId')]: deviceId(),
    };
  }

  /** A header name of this installation. */
  name(rest) {
    return this.#prefix + rest;
  }

  get user() {
    return this.#user;
  }

  set user(user) {
    this.#user = user;
    if (user) sessionStorage.setItem(KEPT, JSON.stringify(user));
    else sessionStorage.removeItem(KEPT);
  }

  use({ partnerToken, identity, accessKey }) {
    if (this.#user?.identity !== identity) this.user = null;
    Object.assign(this, { partnerToken, identity, accessKey });
  }

  /** One request. `path` is relative to the service's base, or an absolute address of an earlier answer. */
  async call(method, path, { headers = {}, body, token = this.#user?.token, keepalive } = {}) {
    const sent = {
      [this.name('AccessToken')]: this.partnerToken,
      ...(token && { Authorization: `Bearer ${token}` }),
      ...headers,
    };
    const json = body === undefined || body instanceof ArrayBuffer ? body : JSON.stringify(body);
    const shown = body instanceof ArrayBuffer ? new TextDecoder().decode(body) : json;
    const read = async (response) => {
      const text = await response.text();
      try {
        return text === '' ? null : JSON.parse(text);
      } catch {
        return text;
      }
    };
    const url = new URL(path, new URL('../', document.baseURI));
    return this.#fetch({ method, url, headers: sent, shown }, { body: json, keepalive }, read);
  }

  /** A manifest or a piece of media; these carry no tokens but those in their address. `range` is `from-to`. */
  media(url, range) {
    const headers = range ? { Range: `bytes=${range}` } : {};
    return this.#fetch({ method: 'GET', url, headers, media: true }, {}, async (response) =>
      response.ok ? response.arrayBuffer() : response.json().catch(() => null),
    );
  }

  async #fetch(request, options, read) {
    const call = { ...request, id: (this.#count += 1), at: Date.now() };
    this.#report({ ...call, pending: true });
    const begin = performance.now();
    let answer;
    try {
      const response = await fetch(call.url, { method: call.method, headers: call.headers, credentials: 'omit', ...options });
      answer = new Answer(response.status, await read(response), response.headers);
    } catch {
      answer = new Answer(0, null);
    }
    const headers = SHOWN_HEADERS.flatMap((name) => (answer.headers.has(name) ? [[name, answer.headers.get(name)]] : []));
    const body = answer.body instanceof ArrayBuffer ? `${answer.body.byteLength.toLocaleString()} bytes` : answer.body;
    this.#report({ ...call, answer: { status: answer.status, code: answer.code, headers, body }, ms: performance.now() - begin });
    return answer;
  }

  #report(detail) {
    this.dispatchEvent(new CustomEvent('call', { detail }));
  }

  // -- Accounts

  async logIn() {
    const body = { identity: this.identity, accessKey: this.accessKey };
    const answer = await this.call('POST', 'api/login/v2/auth/email', { body, token: null });
    if (answer.ok) {
      const { token, userId, sessionId } = answer.body;
      this.user = { identity: this.identity, token, userId, sessionId };
    }
    return answer;
  }

  /** A request that needs a user. A 401 leads to one log-in and one repetition, never to more. */
  async asUser(...request) {
    if (!this.#user) {
      const answer = await this.logIn();
      if (!answer.ok) return answer;
    }
    const answer = await this.call(...request);
    if (answer.code !== 'USER_TOKEN_INVALID') return answer;
    const again = await this.logIn();
    return again.ok ? this.call(...request) : again;
  }

  // -- Catalogue and schedule

  livestreams = () => this.call('GET', 'api/catalog/v1/livestreams');

  assets = () => this.call('GET', 'api/catalog/v1/assets');

  live = (ids) => this.#ofLivestreams('api/schedule/v1/broadcasts/live', ids);

  day = (ids, date) => this.#ofLivestreams(`api/schedule/v1/broadcasts/day/${date}`, ids);

  /** The answers about any number of livestreams as one, or the first refusal. A request takes at most 200 ids. */
  async #ofLivestreams(path, ids) {
    const ask = (some) => this.call('GET', `${path}?livestreams=${some.map(encodeURIComponent)}`);
    const answers = await Promise.all(lists(ids).map(ask));
    return answers.find(({ ok }) => !ok) ?? { ...answers[0], body: Object.assign({}, ...answers.map(({ body }) => body)) };
  }

  broadcasts = (ids) => this.call('GET', `api/schedule/v1/broadcasts?broadcasts=${ids.map(encodeURIComponent)}`);

  // -- Playback

  /** `session` is the session that asks, if it already runs. */
  entitle(assetId, { offset = 0, pinCode, session } = {}) {
    const query = offset ? `?offset=${offset}` : '';
    return this.asUser('POST', `api/entitlement/v2/asset/${encodeURIComponent(assetId)}${query}`, {
      headers: session ? { [this.name('Play-Session')]: session } : {},
      body: pinCode && { pinCode },
    });
  }

  /** What preflight sends, and with its answer's map `headers` license and heartbeat. */
  playbackHeaders(entitlement, encrypted) {
    return {
      [this.name('Play-DRM')]: encrypted ? 'clearkey' : 'none',
      [this.name('Play-Protocol')]: 'dash',
      ...this.device,
      [this.name('Play-EntitlementId')]: entitlement,
    };
  }

  preflight(assetId, headers) {
    return this.asUser('POST', `api/playback/v2/preflight/asset/${encodeURIComponent(assetId)}`, { headers });
  }

  telemetry(events) {
    return this.asUser('POST', 'api/tracker/v1/telemetry-events', { body: events });
  }
}

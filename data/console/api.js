// Client of the admin API. The operator token is kept in the tab's session storage only: never in a URL, a cookie or
// storage that outlives the tab.

import { t } from './i18n.js';

const KEY = 'playgate.operator-token';

export const token = {
  get: () => sessionStorage.getItem(KEY),
  keep: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/** Choices of this tab, such as language and time zone. */
export const preference = {
  get: (name) => sessionStorage.getItem(`playgate.${name}`),
  set: (name, text) => sessionStorage.setItem(`playgate.${name}`, text),
};

/** Dispatches `refused` when the server rejects the token. */
export const session = new EventTarget();

/** An error response, or a failed request (status 0). */
export class Refusal extends Error {
  constructor(status, { message, code, details } = {}, requestId) {
    super(message ?? t`the server answered with status ${status}`);
    Object.assign(this, { status, code, details, requestId });
  }
}

/** Builds a path from escaped values: at`users/${id}/grants`. Rejects `.` and `..`, which URL parsing would resolve. */
export function at(texts, ...values) {
  for (const value of values) {
    if (/^\.{0,2}$/.test(value)) throw new Refusal(0, { message: t`“${value}” is not a valid id` });
  }
  return String.raw({ raw: texts }, ...values.map(encodeURIComponent));
}

/** A query string of the members that have a value; empty if none has. */
export function query(members) {
  const there = Object.entries(members).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return there.length ? `?${new URLSearchParams(there)}` : '';
}

const address = (path) => new URL(`../${path}`, document.baseURI);

async function ask(path, options) {
  try {
    return await fetch(address(path), { cache: 'no-store', credentials: 'omit', redirect: 'error', ...options });
  } catch {
    throw new Refusal(0, { message: t`no response; check that the service is running and reachable at this address` });
  }
}

async function send(method, path, media, body) {
  const headers = { Authorization: `Bearer ${token.get()}` };
  if (media) headers['Content-Type'] = media;
  const answer = await ask(`admin/v1/${path}`, { method, headers, body });
  const text = await answer.text();
  let json = null;
  try {
    json = text && JSON.parse(text);
  } catch {
    // A proxy answered instead of the service.
  }
  if (answer.ok) return { json, headers: answer.headers };
  const refusal = new Refusal(answer.status, json?.error, answer.headers.get('X-Request-Id'));
  if (answer.status === 401) session.dispatchEvent(new CustomEvent('refused', { detail: refusal }));
  throw refusal;
}

/** Sends a request to the admin API and returns the parsed JSON body, `null` if it is empty. */
export async function call(method, path, body) {
  const media = body === undefined ? undefined : 'application/json';
  return (await send(method, path, media, JSON.stringify(body))).json;
}

/** Sends a file as it is. */
export const upload = async (path, file, media = 'application/octet-stream') =>
  (await send('POST', path, media, file)).json;

export const get = (path) => call('GET', path);

/** A page of a list, the number of all its entries, and where older ones begin, if there may be some. */
export async function getPage(path) {
  const { json, headers } = await send('GET', path);
  const [, next] = /[?&]before=(\d+)>; rel="next"/.exec(headers.get('Link') ?? '') ?? [];
  return { rows: json, total: Number(headers.get('X-Total-Count') ?? json.length), next };
}

const pictures = new Map();

/** The local address of the default picture of a livestream, broadcast or video, asked for once; `null` without one. */
export function picture(id) {
  if (!pictures.has(id)) pictures.set(id, waiting.then(() => load(id)));
  // One after the other: a slow server of pictures must not keep other requests waiting.
  waiting = pictures.get(id).catch(() => null);
  return waiting;
}

let waiting = Promise.resolve();

async function load(id) {
  const headers = { Authorization: `Bearer ${token.get()}` };
  const answer = await ask(at`admin/v1/pictures/${id}`, { headers, cache: 'default' });
  return answer.status === 200 ? URL.createObjectURL(await answer.blob()) : null;
}

/** The readiness report: whether the service is ready, with reasons and warnings. In a fleet that of the owner, like all the rest. */
export const readiness = async () => (await ask('readyz?fleet')).json();

/** Fetches the metrics. `value(name, labels)` sums the series with these labels; `undefined` if there are none. */
export async function metrics() {
  const text = await (await ask('metrics?fleet')).text();
  const all = new Map();
  for (const [, name, labels = '', number] of text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)) {
    if (!all.has(name)) all.set(name, []);
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
    const read = pairs.map(([, label, value]) => [label, value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c))]);
    all.get(name).push({ labels: Object.fromEntries(read), value: Number(number) });
  }
  const series = (name) => all.get(name) ?? [];
  const value = (name, wanted = {}) => {
    const fitting = series(name).filter(({ labels }) => Object.entries(wanted).every(([k, v]) => labels[k] === v));
    return fitting.length ? fitting.reduce((sum, one) => sum + one.value, 0) : undefined;
  };
  return { series, value };
}

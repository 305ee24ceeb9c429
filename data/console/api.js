// The administration interface. The operator's token is in the session storage of this tab and nowhere else: in no
// address, no cookie, nothing that outlives the tab.

const KEY = 'playgate.operator-token';

export const token = {
  get: () => sessionStorage.getItem(KEY),
  keep: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/** Hears `refused` when the token is no longer good. */
export const session = new EventTarget();

/** What the interface answers instead of what was asked for. */
export class Refusal extends Error {
  constructor(status, { message, code, details } = {}, requestId) {
    super(message ?? `the answer was ${status}`);
    Object.assign(this, { status, code, details, requestId });
  }
}

/** A path whose values cannot lead elsewhere: at`users/${id}/grants`. */
export function at(texts, ...values) {
  for (const value of values) {
    if (/^\.{0,2}$/.test(value)) throw new Refusal(0, { message: `“${value}” is no name` });
  }
  return String.raw({ raw: texts }, ...values.map(encodeURIComponent));
}

/** The query of the members that are there; empty if none is. */
export function query(members) {
  const there = Object.entries(members).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return there.length ? `?${new URLSearchParams(there)}` : '';
}

const address = (path) => new URL(`../${path}`, document.baseURI);

async function ask(path, options) {
  try {
    return await fetch(address(path), { cache: 'no-store', credentials: 'omit', redirect: 'error', ...options });
  } catch {
    throw new Refusal(0, { message: 'the service does not answer; is it running, and is this still its address?' });
  }
}

/** Calls the interface below /admin/v1; what it answers as JSON, `null` for nothing. */
export async function call(method, path, body) {
  const headers = { Authorization: `Bearer ${token.get()}` };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const answer = await ask(`admin/v1/${path}`, { method, headers, body: JSON.stringify(body) });
  const text = await answer.text();
  let json = null;
  try {
    json = text && JSON.parse(text);
  } catch {
    // Something between here and the service has answered in its place.
  }
  if (answer.ok) return json;
  const refusal = new Refusal(answer.status, json?.error, answer.headers.get('X-Request-Id'));
  if (answer.status === 401) session.dispatchEvent(new CustomEvent('refused', { detail: refusal }));
  throw refusal;
}

export const get = (path) => call('GET', path);

/** Whether the service is ready, and what stands in the way. */
export const readiness = async () => (await ask('readyz')).json();

/** The metrics: `value(name, labels)` is the sum of the series that have these labels, `undefined` without any. */
export async function metrics() {
  const text = await (await ask('metrics')).text();
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

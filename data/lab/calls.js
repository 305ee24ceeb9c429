// The list of calls next to the picture: each call with its answer, and what a player has to do about it.
import { el } from './dom.js';

const KEPT = 300;
const SECRETS = /\b(pg[a-z]_[\w-]{6})[\w-]+|\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g;
const SECRET_MEMBERS = new Set(['accessKey', 'pinCode', 'k']);

// What a player does, as docs/interface.md says.
const ADVICE = {
  USER_TOKEN_INVALID: 'The user token is unknown, expired or revoked: log in once, then repeat the call.',
  PARTNER_TOKEN_INVALID: 'The application’s own token is not accepted: check it under Account.',
  PIN_CODE_REQUIRED: 'Ask the viewer for the PIN and repeat the entitlement with it. Do not log out.',
  PIN_CODE_WRONG: 'Ask again; details.attemptsLeft says how often.',
  PIN_CODE_LOCKED: 'Show how long PIN entry is locked: details.retryAfter.',
  STREAM_LIMIT_REACHED: 'Show the running streams of details.sessions.',
  DEVICE_LIMIT_REACHED: 'Let the viewer remove a device: DELETE /api/user/v1/users/{userId}/devices/{deviceId}.',
  SESSION_ENDED: 'Stop playing. details.reason says why the session ended.',
  SESSION_NOT_FOUND: 'Preflight again.',
  ENTITLEMENT_EXPIRED: 'Ask for entitlement and go on with the new token.',
  ENTITLEMENT_INVALID: 'Ask for entitlement.',
  NOT_AVAILABLE: 'No right covers this position: go to the live point, or end.',
  NOT_ENTITLED: 'The user has no offer that contains this. Do not repeat the call.',
};

const advice = ({ status, code }) =>
  status === 552
    ? 'The programme has no live rights: stop the picture, keep the heartbeat, go on with the next programme.'
    : ADVICE[code];

const shorten = (text) => text.replace(SECRETS, (_, token, uuid) => `${token ?? uuid}…`);

/** Text of a body; passwords, PINs and keys are not shown. */
function bodyText(body) {
  if (body === null || body === undefined || body === '') return '';
  let value = body;
  try {
    if (typeof body === 'string') value = JSON.parse(body);
  } catch {
    return shorten(body);
  }
  return shorten(JSON.stringify(value, (name, member) => (SECRET_MEMBERS.has(name) ? '…' : member), 2));
}

function label({ url, media }) {
  const path = new URL(url).pathname;
  return media ? path.split('/').slice(-1)[0] : path.replace(/^.*?\/api\//, '');
}

const headerText = (pairs) => pairs.map(([name, value]) => `${name}: ${shorten(value)}`).join('\n');

/** The call as a shell command, with its tokens. */
function curl({ method, url, headers, shown }) {
  const quoted = (text) => `'${String(text).replaceAll("'", `'\\''`)}'`;
  const lines = Object.entries(headers).map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`);
  const body = shown === undefined ? [] : [`  -d ${quoted(shown)}`];
  return [`curl -sS -X ${method} ${quoted(url)}`, ...lines, ...body].join(' \\\n');
}

const kind = (status) => (status === 0 || status >= 500 ? 'bad' : status >= 400 ? 'warn' : 'good');

export class CallList {
  #list;
  #empty;
  #mediaCount;
  #media = 0;
  #rows = new Map();

  constructor(list, empty, mediaCount) {
    this.#list = list;
    this.#empty = empty;
    this.#mediaCount = mediaCount;
  }

  /** Shows media requests too, or only the calls of the interface. */
  showMedia(shown) {
    this.#list.classList.toggle('with-media', shown);
  }

  clear() {
    this.#list.replaceChildren();
    this.#rows.clear();
    this.#empty.hidden = false;
  }

  /** A call has been sent, or answered. */
  show(call) {
    this.#empty.hidden = true;
    const row = this.#row(call);
    const before = this.#rows.get(call.id);
    if (before) {
      row.querySelector('details').open = before.querySelector('details').open;
      before.replaceWith(row);
    } else if (call.pending) {
      this.#list.prepend(row);
      if (call.media) this.#mediaCount.textContent = this.#media += 1;
    } else return; // cleared while it was under way
    this.#rows.set(call.id, row);
    if (this.#rows.size > KEPT) {
      const [oldest] = this.#rows.keys();
      this.#rows.get(oldest).remove();
      this.#rows.delete(oldest);
    }
  }

  #row(call) {
    const { answer } = call;
    const time = new Date(call.at).toLocaleTimeString(undefined, { timeStyle: 'medium', hourCycle: 'h23' });
    const summary = el(
      'summary',
      el('time', { title: new Date(call.at).toISOString() }, time),
      el('b', call.method),
      el('span.path', { title: new URL(call.url).pathname }, el('bdi', label(call))),
      answer
        ? el(`span.badge.${kind(answer.status)}`, answer.status || 'no answer')
        : el('span.badge', '…'),
      answer?.code && el('code', answer.code),
    );
    const parts = answer
      ? [
          ['Request', headerText(Object.entries(call.headers))],
          ['Body', bodyText(call.shown)],
          [`Answer ${answer.status || ''} after ${Math.round(call.ms)} ms`, headerText(answer.headers)],
          ['Body', bodyText(answer.body)],
        ]
      : [];
    const copy = el('button', { type: 'button', onclick: () => navigator.clipboard.writeText(curl(call)) }, 'Copy as curl');
    const query = new URL(call.url).search;
    const fill = (details) => {
      if (!details.open || details.childElementCount > 1) return;
      details.append(
        el(
          'div',
          query && el('p', el('code', shorten(query))),
          parts.filter(([, text]) => text).map(([title, text]) => [el('h3', title), el('pre', { tabindex: 0 }, text)]),
          copy,
        ),
      );
    };
    const details = el('details', { ontoggle: (event) => fill(event.target) }, summary);
    const hint = answer && advice(answer);
    return el('li', { class: call.media && 'media', 'data-status': answer?.status }, details, hint && el('p.hint', hint));
  }
}

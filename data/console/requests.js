// The request journal: what clients asked, what they were answered, and why at that moment.
import { at, get, getPage, query } from './api.js';
import { badge, brief, clipped, el, facts, field, full, link, table } from './dom.js';
import { localTime, number, t, zoneName } from './i18n.js';
import { list } from './list.js';
import { person, watched, watchedText } from './names.js';
import { folded, form, panel, subject } from './panel.js';
import { identified } from './users.js';

const PART = 500; // requests that are searched at a time
const MINUTES_AROUND = 5;

const WANTED = ['user', 'asset', 'session', 'code', 'time', 'before'];
// Those that the server searches for as well, chosen above the list.
const CHOSEN = ['status', 'route', 'partner'];
const ROUTES = ['login', 'sign_up', 'entitlement', 'preflight', 'license', 'heartbeat', 'end_playback', 'live', 'none'];

/** `#/requests?user=…&asset=…&session=…&code=…&time=…`, or one request: `#/requests/ID`. */
export function requests({ rest: [id], search, head }) {
  if (id) return single(id, head);
  const asked = Object.fromEntries(WANTED.map((name) => [name, search.get(name) ?? '']));
  const place = panel('', async () => {
    const partners = await get('partners');
    place.replaceWith(records(asked, search, partners));
    return [];
  });
  return [panel('', () => finder(asked)), place];
}

function finder({ user, asset, session, code, time }) {
  // With what is chosen above the list meanwhile.
  const chosen = () => {
    const now = new URLSearchParams(location.hash.split('?')[1]);
    return Object.fromEntries(CHOSEN.map((name) => [name, now.get(name)]));
  };
  const show = (values) => (location.hash = `#/requests${query({ ...values, ...chosen() })}`);
  const go = async (values, element) => {
    const wanted = { ...values, code: values.code.toUpperCase() };
    if (!values.user) return show(wanted);
    // An erased user is known to the journal only, which takes the id.
    const known = await identified(wanted, element, ({ userId }) => show({ ...wanted, user: userId }));
    // The operator may have gone to another page before the answer came.
    if (known !== null && element.isConnected) show(wanted);
  };
  const plain = { spellcheck: 'false', size: 16 };
  const contents = form(
    t`Find requests`,
    [
      field(t`User`, 'user', { ...plain, value: user, placeholder: t`e-mail or id`, size: 22 }),
      field(t`Asset`, 'asset', { ...plain, value: asset }),
      field(t`Playback session`, 'session', { ...plain, value: session }),
      field(t`Error code`, 'code', { ...plain, value: code, placeholder: 'NOT_ENTITLED' }),
      field(t`Around (${zoneName()})`, 'time', { type: 'datetime-local', value: time, title: t`five minutes before and after` }),
    ],
    go,
    { reads: true, fill: true },
  );
  return folded(t`Find requests`, contents);
}

/** The period around a local time. */
function around(time) {
  if (!time) return {};
  const middle = localTime(time);
  return { from: middle - MINUTES_AROUND * 60, to: middle + (MINUTES_AROUND + 1) * 60 };
}

/** What a request was for. */
function named(route) {
  const names = {
    login: t`Log in`,
    sign_up: t`Sign up`,
    entitlement: t`Entitlement`,
    preflight: t`Prepare playback`,
    license: t`License`,
    heartbeat: t`Heartbeat`,
    end_playback: t`End playback`,
    live: t`Now and next`,
    none: t`unknown path`,
    send_reset: t`Reset mail requested`,
    send_reset_email: t`Reset mail requested`,
  };
  return names[route] ?? route.replaceAll('_', ' ');
}

const STATUSES = () => [
  ['refused', t`refused`],
  ['answered', t`answered`],
  ['4xx', t`refused (4xx)`],
  ['401', t`401 not logged in`],
  ['403', t`403 not allowed`],
  ['404', t`404 not found`],
  ['429', t`429 too many`],
  ['552', t`552 playback withdrawn`],
  ['5xx', t`failed (5xx)`],
];
const selects = ({ status }, value) => {
  if (value === 'refused') return status >= 400;
  if (value === 'answered') return status < 400;
  return value.endsWith('xx') ? String(status)[0] === value[0] : String(status) === value;
};

const kind = ({ status }) => (status < 400 ? 'good' : status < 500 || status === 552 ? 'warn' : 'bad');
/** The check that refused a request, with its finding: `password: is wrong`. */
function reason({ steps, message }) {
  const failed = steps.findLast(({ passed }) => !passed);
  return failed ? `${failed.check}: ${failed.finding}` : (message ?? '');
}

const took = (micros) => (micros < 100 ? '< 0.1 ms' : `${number(micros / 1000, { maximumFractionDigits: 1 })} ms`);

/** The link to a request, by its path if no route has it. */
const asked = ({ route, path, id }) => {
  const known = route !== 'none';
  const anchor = link(known ? named(route) : path, 'requests', id);
  return known ? anchor : clipped(path, anchor);
};

/** The requests, newest first; those of one session oldest first, with the time since the first of them. */
function records({ time, before, ...wanted }, search, partners) {
  const { session } = wanted;
  let all = [];
  let next;
  let chosen = {};
  const load = async (view) => {
    // The server searches the whole journal, and the list only what came.
    chosen = view.chosen;
    ({ rows: all, next } = await getPage(`requests${query({ ...wanted, ...chosen, before, ...around(time), limit: PART })}`));
    return all;
  };
  // A long search is interrupted: then there may be older ones even if the page is empty.
  const older = () => next && el('p', el('a', { href: `#/requests${query({ ...wanted, ...chosen, time, before: next })}` }, t`Older`));
  const sinceFirst = ({ atMillis }) => (atMillis - all.at(-1).atMillis) / 1000;
  const sinceStart = { head: t`After`, id: 'after', value: sinceFirst, cell: (row) => `${number(sinceFirst(row), { maximumFractionDigits: 1 })} s` };
  return list('', load, {
    search,
    searchLabel: t`Filter this list`,
    keep: { ...wanted, time, before },
    csv: 'requests',
    sort: session && 'number',
    none: t`No requests.`,
    matches: (one) => [named(one.route), one.route, one.path, one.status, one.status < 400 ? t`answered` : t`refused`, one.code, one.message, one.email, one.user, one.asset, watchedText(one), one.partner, one.id],
    more: older,
    opens: true,
    zoned: true,
    filters: [
      { name: 'status', label: t`Result`, options: STATUSES(), test: selects },
      { name: 'route', label: t`Request`, options: ROUTES.map((one) => [one, named(one)]), test: () => true },
      { name: 'partner', label: t`Partner`, options: partners.map(({ name }) => [name, name]), test: () => true },
    ],
    columns: [
      { head: t`Time`, id: 'number', value: (row) => row.number, cell: (row) => brief(row.at), csv: (row) => new Date(row.atMillis).toISOString() },
      ...(session ? [sinceStart] : []),
      { head: t`Request`, id: 'route', value: ({ route }) => route, cell: (row) => asked(row) },
      { head: t`User`, id: 'user', grow: 2, value: (row) => row.email ?? row.user, cell: person },
      { head: t`Asset`, id: 'asset', grow: 2, value: watchedText, cell: watched, csv: (row) => row.asset },
      {
        head: t`Result`,
        id: 'status',
        value: ({ status }) => status,
        cell: (row) => el('span.calm', badge(row.status, kind(row)), ' ', row.code ?? '', row.fault && [' ', badge(t`fault`, 'warn')]),
        csv: (row) => `${row.status} ${row.code ?? ''}`,
      },
      { head: t`Reason`, id: 'reason', grow: 3, value: reason, cell: (row) => reason(row) && clipped(reason(row)) },
      { head: t`Took`, id: 'ms', value: ({ micros }) => micros, cell: ({ micros }) => el('span.calm', took(micros)), csv: ({ micros }) => micros / 1000 },
    ],
  });
}

function single(id, head) {
  const back = [t`All requests`, '#/requests'];
  head(t`Request`, { back });
  return subject(
    () => get(at`requests/${id}`),
    (said) => {
      const result = [badge([said.status, said.code].filter(Boolean).join(' '), kind(said)), said.fault && badge(t`fault`, 'warn')];
      head([named(said.route), watchedText(said)].filter(Boolean).join(': '), { back, beside: [result, full(said.at)] });
      return [panel('', () => one(said))];
    },
  );
}

function one(said) {
  const pairs = (members) => Object.entries(members).map(([name, value]) => [el('code', name), typeof value === 'string' ? value : JSON.stringify(value)]);
  const sent = [...pairs(said.query), ...pairs(said.headers), ...pairs(said.body)];
  const { device = {} } = said;
  return [
    el(`div.verdict.${kind(said)}`, `${said.status}`, said.code && el('small', ` ${said.code}`)),
    said.message && el('p', said.message),
    facts([
      [t`Time`, full(said.at)],
      [t`Request`, el('code', `${said.method} ${said.path}`)],
      [t`Partner`, said.partner],
      [t`User`, said.user && person(said)],
      [t`Asset`, said.asset && watched(said)],
      [t`Playback session`, said.session && el('a', { href: `#/requests${query({ session: said.session })}` }, said.session)],
      [t`Device`, [device.model, device.platform, device.type].filter(Boolean).join(' ') || undefined],
      [t`Network`, said.network],
      [t`Fault`, said.fault],
      [t`Took`, took(said.micros)],
      [t`Id`, el('code', said.id)],
    ]),
    said.steps.length > 0 && [
      el('h2', t`The decision at that moment`),
      table(
        [t`Result`, t`Check`, t`Subject`, t`Finding`],
        said.steps.map(({ check, subject, finding, passed }) => [
          passed ? badge('✓', 'good') : badge('✗', 'bad'),
          check,
          subject ? el('code', subject) : '',
          finding,
        ]),
      ),
    ],
    sent.length > 0 && [el('h2', t`Sent`), table([t`Name`, t`Value`], sent, undefined, { compact: true })],
  ];
}

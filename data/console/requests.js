// The request journal: what clients asked, what they were answered, and why at that moment.
import { at, get, getPage, query } from './api.js';
import { absent, back, badge, clipped, el, exact, facts, field, full, link, table } from './dom.js';
import { localTime, number, t, zoneName } from './i18n.js';
import { list } from './list.js';
import { folded, form, panel } from './panel.js';
import { identified } from './users.js';

const PART = 500; // requests that are searched at a time
const MINUTES_AROUND = 5;

const WANTED = ['user', 'asset', 'session', 'code', 'time', 'before'];

/** `#/requests?user=…&asset=…&session=…&code=…&time=…`, or one request: `#/requests/ID`. */
export function requests({ rest: [id], search }) {
  if (id) return [back(t`All requests`, '#/requests'), panel('', () => one(id))];
  const asked = Object.fromEntries(WANTED.map((name) => [name, search.get(name) ?? '']));
  return [panel('', () => finder(asked)), records(asked, search)];
}

function finder({ user, asset, session, code, time }) {
  const show = (values) => (location.hash = `#/requests${query(values)}`);
  const go = async (values, element) => {
    const wanted = { ...values, code: values.code.toUpperCase() };
    if (!values.user) return show(wanted);
    // An erased user is known to the journal only, which takes the id.
    const known = await identified(wanted, element, ({ userId }) => show({ ...wanted, user: userId }));
    // The operator may have gone to another page before the answer came.
    if (known !== null && element.isConnected) show(wanted);
  };
  const plain = { spellcheck: 'false' };
  const contents = form(
    t`Find requests`,
    [
      field(t`User`, 'user', { ...plain, value: user, placeholder: t`e-mail or id`, size: 28 }),
      field(t`Asset`, 'asset', { ...plain, value: asset }),
      field(t`Playback session`, 'session', { ...plain, value: session, size: 24 }),
      field(t`Error code`, 'code', { ...plain, value: code, placeholder: 'NOT_ENTITLED' }),
      field(t`Time (${zoneName()}, five minutes before and after)`, 'time', { type: 'datetime-local', value: time }),
    ],
    go,
    { reads: true },
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
  const names = { send_reset: t`Reset mail requested`, send_reset_email: t`Reset mail requested`, preflight: t`Prepare playback` };
  return names[route] ?? route.replaceAll('_', ' ');
}

const kind = ({ status }) => (status < 400 ? 'good' : status < 500 || status === 552 ? 'warn' : 'bad');
/** The user's e-mail address; the id if the user was erased since. */
const viewer = ({ email, user }) => user && link(email ?? user, 'users', user);
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
function records({ time, before, ...wanted }, search) {
  const { session } = wanted;
  let all = [];
  let next;
  const load = async () => {
    ({ rows: all, next } = await getPage(`requests${query({ ...wanted, before, ...around(time), limit: PART })}`));
    return all;
  };
  // A long search is interrupted: then there may be older ones even if the page is empty.
  const older = () => next && el('p', el('a', { href: `#/requests${query({ ...wanted, time, before: next })}` }, t`Older`));
  const sinceFirst = ({ atMillis }) => (atMillis - all.at(-1).atMillis) / 1000;
  const sinceStart = { head: t`After`, id: 'after', value: sinceFirst, cell: (row) => `${number(sinceFirst(row), { maximumFractionDigits: 1 })} s` };
  return list('', load, {
    search,
    searchLabel: t`Filter this list`,
    keep: { ...wanted, time, before },
    csv: 'requests',
    sort: session && 'number',
    none: t`No requests.`,
    matches: (one) => [named(one.route), one.route, one.path, one.code, one.message, one.email, one.user, one.asset, one.id],
    more: older,
    filters: [
      {
        name: 'result',
        label: t`Result`,
        options: [
          ['good', t`answered`],
          ['bad', t`refused`],
        ],
        test: ({ status }, value) => status < 400 === (value === 'good'),
      },
    ],
    columns: [
      { head: t`Time`, id: 'number', value: (row) => row.number, cell: (row) => exact(row.at), csv: (row) => new Date(row.atMillis).toISOString() },
      ...(session ? [sinceStart] : []),
      { head: t`Request`, id: 'route', value: ({ route }) => route, cell: (row) => asked(row) },
      { head: t`User`, id: 'user', value: (row) => row.email ?? row.user, cell: (row) => (row.user ? clipped(row.email ?? row.user, viewer(row)) : absent()) },
      { head: t`Asset`, id: 'asset', value: (row) => row.asset, cell: (row) => (row.asset ? clipped(row.asset) : absent()) },
      {
        head: t`Result`,
        id: 'status',
        value: ({ status }) => status,
        cell: (row) => el('span.calm', badge(row.status, kind(row)), ' ', row.code ?? '', row.fault && [' ', badge(t`fault`, 'warn')]),
        csv: (row) => `${row.status} ${row.code ?? ''}`,
      },
      { head: t`Reason`, id: 'reason', value: reason, cell: reason },
      { head: t`Took`, id: 'ms', value: ({ micros }) => micros, cell: ({ micros }) => el('span.calm', took(micros)), csv: ({ micros }) => micros / 1000 },
    ],
  });
}

async function one(id) {
  const said = await get(at`requests/${id}`);
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
      [t`User`, viewer(said)],
      [t`Asset`, said.asset],
      [t`Playback session`, said.session && el('a', { href: `#/requests${query({ session: said.session })}` }, said.session)],
      [t`Device`, [device.model, device.platform, device.type].filter(Boolean).join(' ') || undefined],
      [t`Network`, said.network],
      [t`Fault`, said.fault],
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

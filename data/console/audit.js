// The audit log: every request that changes something, from any interface, and every read of mail with secrets.
import { get, query } from './api.js';
import { badge, el, full, link, quiet } from './dom.js';
import { t } from './i18n.js';
import { list } from './list.js';

const PART = 1_000; // entries that are searched at a time

export const audit = ({ search }) => [entries(search)];

/** The result of a change. It stays `null` if the process ended before the request did. */
function came(status) {
  if (status === null) return badge(t`no result`, 'warn');
  return badge(status, status < 400 ? 'good' : 'bad');
}

const accepts = (text) => new URLSearchParams(text.split('?')[1]).has('accept');

/** The name of a target whose path does not name it. */
function named(text) {
  if (!/^epg\/import(\?|$)/.test(text)) return undefined;
  return accepts(text) ? t`guide, accepted despite doubts` : t`guide`;
}

/** The target of a change; users are linked. */
function target(text) {
  const name = named(text);
  if (name) return el('span', { title: text }, name);
  const [, id, rest] = text.match(/^users\/([\w-]{22})(.*)$/) ?? [];
  return id ? [link('users/' + id, 'users', id), el('code', rest)] : el('code', text);
}

const CAME = () => [
  ['done', t`done`],
  ['refused', t`refused`],
];
const outcome = ({ status }) => (status !== null && status < 400 ? 'done' : 'refused');
const verb = ({ action }) => action.replace(/^admin_/, '').replaceAll('_', ' ').replace(/\bcatalog\b/, 'catalogue');

/** The newest entries, or those before a number: the log is read backwards, a part at a time. */
function entries(search) {
  const before = search.get('before');
  const older = ({ oldest }) => el('a', { href: `#/audit?before=${oldest}` }, t`Older`);
  let all = [];
  return list(
    '',
    async () => {
      all = await get(`audit${query({ before, limit: PART })}`);
      return all;
    },
    {
      search,
      csv: 'audit',
      matches: (one) => [one.name, one.claimed, verb(one), one.target, named(one.target), one.requestId],
      filters: [{ name: 'result', label: t`Result`, options: CAME(), test: (row, value) => outcome(row) === value }],
      columns: [
        { head: t`No.`, id: 'number', value: (one) => one.number, cell: (one) => one.number },
        {
          head: t`Time`,
          id: 'at',
          value: (one) => one.timestamp,
          cell: (one) => full(one.timestamp),
          csv: (one) => new Date(one.timestamp * 1000).toISOString(),
        },
        {
          head: t`Actor`,
          id: 'actor',
          value: ({ name }) => name,
          cell: (one) => [el('span.calm', one.name, ' ', one.operatorId && quiet(one.role)), ' ', one.claimed && quiet(t`claimed name: ${one.claimed}`)],
        },
        { head: t`Action`, id: 'action', value: verb, cell: verb },
        {
          head: t`Target`,
          id: 'target',
          value: (one) => one.target,
          cell: (one) => target(one.target),
        },
        { head: t`Request`, cell: ({ requestId }) => el('code.calm', { title: requestId }, `…${requestId.slice(-7)}`), csv: ({ requestId }) => requestId },
        { head: t`Result`, id: 'status', value: ({ status }) => status ?? 0, cell: ({ status }) => came(status) },
      ],
      more: () =>
        el(
          'p.actions',
          before && el('a', { href: '#/audit' }, t`Newest`),
          all.length === PART && older({ oldest: all.at(-1).number }),
        ),
    },
  );
}

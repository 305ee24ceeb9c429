// The audit log: every request that changes something, from any interface, and every read of mail with secrets.
import { get, query } from './api.js';
import { badge, el, link, quiet, table, when } from './dom.js';
import { panel } from './panel.js';

const PAGE = 100;

export const audit = ({ search }) => [panel('', () => page(search.get('before')))];

/** The result of a change. It stays `null` if the process ended before the request did. */
function came(status) {
  if (status === null) return badge('no result', 'warn');
  return badge(status, status < 400 ? 'good' : 'bad');
}

/** The target of a change; users are linked. */
function target(text) {
  const [, id, rest] = text.match(/^users\/([\w-]{22})(.*)$/) ?? [];
  return id ? [link('users/' + id, 'users', id), el('code', rest)] : el('code', text);
}

async function page(before) {
  const list = await get(`audit${query({ before, limit: PAGE })}`);
  const rows = list.map((change) => [
    change.number,
    when(change.timestamp),
    [
      change.name,
      ' ',
      change.operatorId && quiet(change.role),
      change.claimed && quiet(`claimed name: ${change.claimed}`),
    ],
    change.action.replace(/^admin_/, '').replaceAll('_', ' '),
    [target(change.target), el('br'), el('small', 'request ', change.requestId)],
    came(change.status),
  ]);
  const older = list.length === PAGE && el('a', { href: `#/audit?before=${list.at(-1).number}` }, 'Older');
  return [
    table(['No.', 'Time', 'Actor', 'Action', 'Target', 'Result'], rows, 'No entries.'),
    el('p.actions', before && el('a', { href: '#/audit' }, 'Newest'), older),
  ];
}

// The audit record: every request that changes something, whichever way it was made, and every reading of mail with its
// secrets.
import { get, query } from './api.js';
import { badge, el, link, quiet, table, when } from './dom.js';
import { panel } from './panel.js';

const PAGE = 100;

export const audit = ({ search }) => [panel('', () => page(search.get('before')))];

/** What became of a change. `null` while it runs, and for ever if the machine went down meanwhile. */
function came(status) {
  if (status === null) return badge('not ended', 'warn');
  return badge(status, status < 400 ? 'good' : 'bad');
}

/** What was changed; who, if it is a user, with the way to them. */
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
      change.claimed && quiet(`claims to be ${change.claimed}`),
    ],
    change.action.replace(/^admin_/, '').replaceAll('_', ' '),
    [target(change.target), el('br'), el('small', 'request ', change.requestId)],
    came(change.status),
  ]);
  const older = list.length === PAGE && el('a', { href: `#/audit?before=${list.at(-1).number}` }, 'Older');
  return [
    table(['No.', 'When', 'Who', 'Action', 'Target', 'Result'], rows, 'No entries.'),
    el('p.actions', before && el('a', { href: '#/audit' }, 'Newest'), older),
  ];
}

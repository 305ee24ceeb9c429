// The audit log: every request that changes something, from any interface, and every read of mail with secrets.
import { get, query } from './api.js';
import { A, B, badge, el, full, link, phrase, quiet } from './dom.js';
import { t } from './i18n.js';
import { list } from './list.js';

const PART = 1_000; // entries that are searched at a time

export const audit = ({ search }) => [entries(search)];

/** The result of a change. It stays `null` if the process ended before the request did. */
function came(status) {
  if (status === null) return badge(t`no result`, 'warn');
  return status < 400 ? badge(t`done`, 'good') : badge(t`refused (${status})`, 'bad');
}

/** The parts of a target: its segments, and its query. */
function parts(target) {
  const [whole, counts] = target.split(': ');
  const [path, search = ''] = whole.split('?');
  // The id of what was created stands at the end, after the query.
  const made = !path.includes('/') && search.includes('/') ? search.split('/').at(-1) : undefined;
  const segments = path.split('/');
  return { segments: made ? [...segments, made] : segments, counts, flags: new URLSearchParams(search) };
}

/** The object of a change: linked where it has a page, by its name if it still has one. */
function object({ subject, partner }, { segments: [kind, id] }) {
  const text = el('strong', subject ?? id ?? '');
  const pages = { users: ['users', id], broadcasts: ['broadcast', id], livestreams: ['schedule', id] };
  const to = id && id !== '-' && pages[kind];
  return [to ? link(text, ...to) : text, partner && quiet(` (${partner})`)];
}

/** What each operation does, as the rest of a sentence that begins with a name. */
const SENTENCES = () => ({
  admin_grant: [t`granted ${A} to ${B}`, 3],
  admin_revoke_grant: [t`revoked ${A} from ${B}`, 3],
  admin_add_user: [t`added the user ${B}`],
  admin_change_user: [t`changed the user ${B}`],
  admin_remove_user: [t`removed the user ${B}`],
  admin_import_users: [t`imported users`],
  admin_set_pin: [t`set a PIN for ${B}`],
  admin_mail_reset: [t`sent ${B} a password reset mail`],
  admin_logout_user: [t`logged ${B} out everywhere`],
  admin_remove_device: [t`removed the device ${A} of ${B}`, 3],
  admin_clear_devices: [t`removed all devices of ${B}`],
  admin_end_playback_session: [t`ended the playback session ${A}`, 1],
  admin_show_mail: [t`read a mail with its secrets`],
  admin_retry_mail: [t`sent a mail again`],
  admin_test_mail: [t`sent a test mail`],
  admin_set_rights: [t`set the rights of ${B}`],
  admin_clear_rights: [t`removed the own rights of ${B}`],
  admin_set_defaults: [t`changed the rights of the channel ${B}`],
  admin_add_rule: [t`added a rule`],
  admin_remove_rule: [t`removed the rule ${A}`, 1],
  admin_import_catalog: [t`imported a catalogue`],
  admin_undo_catalog: [t`restored a previous catalogue`],
  admin_import_guide: [t`imported a guide`],
  admin_refresh_source: [t`imported from the EPG source ${A}`, 2],
  admin_add_partner: [t`added the partner ${B}`],
  admin_change_partner: [t`changed the partner ${B}`],
  admin_remove_partner: [t`removed the partner ${B}`],
  admin_add_partner_token: [t`created a token of the partner ${B}`],
  admin_revoke_partner_token: [t`revoked the token ${A} of the partner ${B}`, 3],
  admin_add_fault: [t`added a fault for ${B}`],
  admin_clear_fault: [t`removed the fault ${A} of ${B}`, 3],
  admin_clear_faults: [t`removed all faults of ${B}`],
  admin_reset_partner: [t`reset the lab partner ${B}`],
  admin_move_partner_clock: [t`moved the clock of ${B}`],
  admin_reset_partner_clock: [t`returned the clock of ${B}`],
  admin_add_operator: [t`added the operator ${B}`],
  admin_revoke_operator: [t`removed the operator ${B}`],
  admin_add_operator_token: [t`created a token of the operator ${B}`],
  admin_revoke_operator_token: [t`revoked the token ${A} of the operator ${B}`, 3],
  admin_move_clock: [t`moved the clock of the server`],
  admin_reset_clock: [t`returned the clock of the server to real time`],
  admin_accept_clock: [t`accepted the time of the machine`],
  admin_create_backup: [t`created a backup`],
  admin_restore_backup: [t`restored the backup ${A}`, 1],
  admin_restore_sent_backup: [t`restored a backup from a file`],
  admin_rebuild_store: [t`rebuilt the store`],
  admin_compact_store: [t`compacted the store`],
});

/** The operation in words, for one that has no sentence. */
const verb = ({ action }) => action.replace(/^admin_/, '').replaceAll('_', ' ').replace(/\bcatalog\b/, 'catalogue');

function sentence(entry, sentences) {
  const target = parts(entry.target);
  const { segments, counts, flags } = target;
  const [text, at] = sentences[entry.action] ?? [];
  const named = segments[at];
  const what = text ? phrase(text, el('strong', named ?? ''), object(entry, target)) : [verb(entry), ' ', el('code', entry.target)];
  const notes = [flags.has('accept') && t`despite doubts`, flags.has('merge') && t`adding only`, counts].filter(Boolean);
  return el('span', { title: `${verb(entry)}: ${entry.target}` }, what, notes.length > 0 && quiet(` · ${notes.join(' · ')}`));
}

const CAME = () => [
  ['done', t`done`],
  ['refused', t`refused`],
];
const outcome = ({ status }) => (status !== null && status < 400 ? 'done' : 'refused');

/** The newest entries, or those before a number: the log is read backwards, a part at a time. */
function entries(search) {
  const before = search.get('before');
  const older = ({ oldest }) => el('a', { href: `#/audit?before=${oldest}` }, t`Older`);
  const sentences = SENTENCES();
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
      matches: (one) => [one.name, one.claimed, sentence(one, sentences).textContent, verb(one), one.target, one.requestId],
      filters: [{ name: 'result', label: t`Result`, options: CAME(), test: (row, value) => outcome(row) === value }],
      columns: [
        {
          head: t`Time`,
          id: 'at',
          value: (one) => one.number,
          cell: (one) => full(one.timestamp),
          csv: (one) => new Date(one.timestamp * 1000).toISOString(),
        },
        {
          head: t`Actor`,
          id: 'actor',
          kind: 'single',
          value: ({ name }) => name,
          cell: (one) => [el('span', { title: one.operatorId ? one.role : t`the administration socket of this machine` }, one.name), ' ', one.claimed && quiet(t`claimed name: ${one.claimed}`)],
        },
        { head: t`What`, id: 'action', kind: 'whole', value: verb, cell: (one) => sentence(one, sentences), csv: (one) => `${verb(one)} ${one.target}` },
        { head: t`Result`, id: 'status', value: ({ status }) => status ?? 0, cell: ({ status }) => came(status) },
        { head: t`Request`, csv: ({ requestId }) => requestId },
        { head: '', cell: ({ requestId, number }) => el('span.quiet', { title: t`entry ${number}, request ${requestId}` }, `#${number}`) },
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

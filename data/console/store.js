// Backups and verification of the store. Restoring is left to the command line: it restarts the process, which would
// cut off the response to this page.
import { at, call, get } from './api.js';
import { badge, bytes, count, el, facts, quiet, table, when, yes } from './dom.js';
import { action, mayChange, panel } from './panel.js';

export const store = () => [panel('', backups), ...(mayChange() ? [panel('Store', verification)] : [])];

async function backups(self) {
  const list = await get('backups');
  const create = async () => {
    const { name, records } = await call('POST', 'backups');
    await self.done(`Created and verified ${name}: ${count(records)} records.`);
  };
  const verify = async (name) => {
    const { records, version } = await call('POST', at`backups/${name}/verify`);
    self.say(`${name} is intact: ${count(records)} records, created by version ${version ?? 'unknown'}.`);
  };
  const rows = list.map((one) => [
    when(one.createdAt),
    el('code', one.name),
    one.records === null ? quiet('–') : count(one.records),
    bytes(one.bytes),
    one.own ? '' : badge('from another store'),
    action('Verify', () => verify(one.name), { label: `Verify ${one.name}` }),
  ]);
  return [
    el('p.actions', action('Create backup', create)),
    table(['Created', 'File', 'Records', 'Size', '', ''], rows, 'No backups yet.'),
    el('p.quiet', 'To restore a backup: ', el('code', 'playgate backup restore FILE')),
  ];
}

function verification(self) {
  const verify = async () => {
    const { sound, tables, truth } = await call('POST', 'store/verify');
    const rows = tables.map((one) => [
      one.table,
      count(one.records),
      count(one.damaged),
      count(one.missing),
      count(one.stale),
      (one.places ?? []).join(', '),
    ]);
    self.show(
      facts([
        ['Result', yes(sound, 'intact', 'damaged')],
        ['Last commit', truth && count(truth.number)],
        ['Missing records', truth && count(truth.missing)],
        ['Unexpected records', truth && count(truth.extra)],
        ['Damage', truth?.damage],
      ]),
      table(['Table', 'Records', 'Damaged', 'Missing index entries', 'Stale index entries', 'First locations'], rows),
    );
  };
  return [
    el(
      'p.quiet',
      'Compares records with their indexes, and the engine with snapshot and write-ahead log. Makes no changes.',
    ),
    el('p.actions', action('Verify store', verify)),
  ];
}

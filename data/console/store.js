// Backups, and whether the store is sound. To bring a backup back is for the command line: the process begins again with
// it, and this page would be gone in the middle of the answer.
import { at, call, get } from './api.js';
import { badge, bytes, count, el, facts, quiet, table, when, yes } from './dom.js';
import { action, mayChange, panel } from './panel.js';

export const store = () => [panel('', backups), ...(mayChange() ? [panel('Store', verification)] : [])];

async function backups(self) {
  const list = await get('backups');
  const create = async () => {
    const { name, records } = await call('POST', 'backups');
    await self.done(`${name} was made and read back: ${count(records)} records.`);
  };
  const verify = async (name) => {
    const { records, version } = await call('POST', at`backups/${name}/verify`);
    self.say(`${name} is sound: ${count(records)} records, made by version ${version ?? 'unknown'}.`);
  };
  const rows = list.map((one) => [
    when(one.createdAt),
    el('code', one.name),
    one.records === null ? quiet('–') : count(one.records),
    bytes(one.bytes),
    one.own ? '' : badge('another store’s'),
    action('Verify', () => verify(one.name), { label: `Verify ${one.name}` }),
  ]);
  return [
    el('p.actions', action('Back up now', create)),
    table(['Made', 'File', 'Records', 'Size', '', ''], rows, 'There is no backup yet.'),
    el('p.quiet', 'To bring one back: ', el('code', 'playgate backup restore FILE')),
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
        ['All of it', yes(sound, 'sound', 'damaged')],
        ['Last commit', truth && count(truth.number)],
        ['Missing', truth && count(truth.missing)],
        ['Too many', truth && count(truth.extra)],
        ['Damage', truth?.damage],
      ]),
      table(['Table', 'Records', 'Damaged', 'Missing', 'Stale', 'Where'], rows),
    );
  };
  return [
    el(
      'p.quiet',
      'Compares records with indexes, both ways, and what is served with what is written. It changes nothing.',
    ),
    el('p.actions', action('Verify the store', verify)),
  ];
}

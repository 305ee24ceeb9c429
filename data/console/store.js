// Backups, their restore, and verification of the store.
import { at, call, get, readiness } from './api.js';
import { absent, badge, bytes, count, el, facts, quiet, table, when, yes } from './dom.js';
import { longTime, t } from './i18n.js';
import { list } from './list.js';
import { action, mayChange, panel } from './panel.js';

const POLL_MS = 1_000;
const RESTART_WITHIN_MS = 120_000;

export function store({ search }) {
  const create = (self) => [
    el('p.quiet', t`“backup.at” of playgate.toml makes one each night, “backup.keep” says how many are kept. Copy the folder “keys” of the data directory once by hand: backups do not contain it.`),
    el(
      'p.actions',
      action(t`Create backup`, async () => {
        const { name, records } = await call('POST', 'backups');
        shown.renew();
        await self.done(t`Created and verified ${name}: ${count(records)} records.`);
      }),
    ),
  ];
  const top = panel(t`New backup`, create);
  const shown = backups(search);
  return [mayChange() && top, shown, mayChange() && panel(t`Store`, verification)];
}

function backups(search) {
  const verify = async (self, name) => {
    const { records, version } = await call('POST', at`backups/${name}/verify`);
    self.say(t`${name} is intact: ${count(records)} records, created by version ${version ?? '–'}.`);
  };
  const restore = async (self, { name, own }) => {
    await call('POST', at`backups/${name}/restore` + (own ? '' : '?adopt=true'));
    self.say(t`Restored ${name}. The service restarts…`);
    await restarted();
    await self.done(t`Restored ${name}. The service is ready.`);
  };
  const buttons = (one, self) => [
    action(t`Verify`, () => verify(self, one.name), { label: t`Verify ${one.name}` }),
    ' ',
    action(t`Restore`, () => restore(self, one), {
      label: t`Restore ${one.name}`,
      ask: one.own
        ? t`Replace all data with the backup of ${longTime(one.createdAt)} (${one.name})? Everything since then is set aside, and the service restarts.`
        : t`Adopt the backup of ${longTime(one.createdAt)} of another store (${one.name})? All data is replaced, and the service restarts.`,
    }),
  ];
  return list('', () => get('backups'), {
    search,
    csv: 'backups',
    none: t`No backups yet.`,
    matches: ({ name }) => [name],
    columns: [
      { head: t`Created`, id: 'at', value: (one) => one.createdAt, cell: (one) => when(one.createdAt) },
      { head: t`File`, id: 'name', value: ({ name }) => name, cell: ({ name }) => el('code', name) },
      {
        head: t`Records`,
        id: 'records',
        value: (one) => one.records ?? 0,
        cell: (one) => (one.records === null ? absent() : count(one.records)),
      },
      { head: t`Size`, id: 'bytes', value: (one) => one.bytes, cell: (one) => bytes(one.bytes) },
      { head: t`Origin`, cell: (one) => (one.own ? t`this store` : badge(t`from another store`)) },
      { head: '', cell: buttons },
    ],
  });
}

/** Waits until the service is ready again. */
async function restarted() {
  const end = Date.now() + RESTART_WITHIN_MS;
  while (Date.now() < end) {
    await new Promise((done) => setTimeout(done, POLL_MS));
    try {
      if ((await readiness()).ready) return;
    } catch {
      // It is not there yet.
    }
  }
  throw Object.assign(new Error(t`the service is not ready after two minutes; look at its log`), { status: 0 });
}

function verification(self) {
  const verify = async () => {
    const { sound, tables, durableState } = await call('POST', 'store/verify');
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
        [t`Result`, yes(sound, t`intact`, t`damaged`)],
        [t`Last commit`, durableState && count(durableState.number)],
        [t`Missing records`, durableState && count(durableState.missing)],
        [t`Unexpected records`, durableState && count(durableState.extra)],
        [t`Damage`, durableState?.damage],
      ]),
      table(
        [t`Table`, t`Records`, t`Damaged`, t`Missing index entries`, t`Stale index entries`, t`First locations`],
        rows,
      ),
    );
  };
  return [
    el('p.quiet', t`Checks that the stored data is complete and undamaged. Changes nothing.`),
    el('p.actions', action(t`Verify store`, verify)),
  ];
}

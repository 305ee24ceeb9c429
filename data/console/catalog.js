// The catalogue: livestreams, assets, offers and rules. It is changed by importing a file.
import { call, get, query } from './api.js';
import { badge, el, link, quiet, table, when, yes } from './dom.js';
import { action, panel } from './panel.js';

/** All panels share one request for the catalogue. */
export function catalog() {
  const all = get('catalog?format=json');
  const part = (title, draw) => panel(title, async () => draw(await all));
  return [
    part('Livestreams', livestreams),
    part('Videos on demand', assets),
    part('Offers', offers),
    panel('Rules', rules),
    panel('Previous versions', versions),
    el(
      'p.quiet',
      'To change the catalogue, run ',
      el('code', 'playgate catalog import FILE'),
      '. Add ',
      el('code', '--dry-run'),
      ' to preview the changes.',
    ),
  ];
}

/** Catalogues that were replaced by an import or a restore. */
async function versions(self) {
  const list = await get('catalog/history');
  const undo = async (version) => {
    const { added, changed, removed } = await call('POST', `catalog/undo${query({ version })}`);
    await self.done(`Restored version ${version}: ${added} added, ${changed} changed, ${removed} removed.`);
  };
  const rows = list.map((one) => [
    one.version,
    when(one.replacedAt),
    one.replacedBy,
    one.livestreams,
    one.assets,
    one.offers,
    one.rules,
    action('Restore', () => undo(one.version), {
      ask: `Replace the catalogue with version ${one.version}? The current catalogue is kept as a previous version.`,
      label: `Restore version ${one.version}`,
    }),
  ]);
  const heads = ['Version', 'Replaced at', 'Replaced by', 'Livestreams', 'Assets', 'Offers', 'Rules', ''];
  return table(heads, rows, 'No previous versions.');
}

const protocols = ({ playlist = {} }) => Object.keys(playlist).join(', ');

const livestreams = ({ livestream }) =>
  table(
    ['Id', 'Name', 'Time zone', 'Live', 'Catch-up', 'Start over', 'Encrypted', 'Protocols'],
    livestream.map((one) => [
      link(one.id, 'schedule', one.id),
      one.name,
      one.zone,
      yes(one.live_rights),
      one.catchup_days ? `${one.catchup_days} days` : badge('none'),
      yes(one.start_over),
      one.encrypted ? 'yes' : 'no',
      protocols(one),
    ]),
  );

/** One end of a time window, in TOML's date-time format. */
const time = (text) => (text === undefined ? quiet('open-ended') : when(Date.parse(text) / 1000));

const assets = ({ asset }) =>
  table(
    ['Id', 'Title', 'Age rating', 'Available', 'Encrypted', 'Protocols'],
    asset.map((one) => [
      el('code', one.id),
      one.title,
      one.pg_age ?? quiet('–'),
      one.available ? [time(one.available.from), ' – ', time(one.available.to)] : 'always',
      one.encrypted ? 'yes' : 'no',
      protocols(one),
    ]),
  );

const pack = (of) =>
  typeof of === 'string' ? of : [...(of.livestreams ?? []), ...(of.assets ?? [])].join(', ') || quiet('empty');

const offers = ({ offer }) =>
  table(
    ['Id', 'Type', 'Contents', 'Countries', 'On sale', 'Duration'],
    offer.map((one) => [
      el('code', one.id),
      one.type,
      pack(one.pack),
      one.countries?.length ? one.countries.join(', ') : 'everywhere',
      one.sale ? [time(one.sale.from), ' – ', time(one.sale.to)] : 'always',
      one.duration_days ? `${one.duration_days} days` : 'until revoked',
    ]),
  );

async function rules() {
  const list = await get('rules');
  return table(
    ['No.', 'Rule'],
    list.map(({ number, text }) => [number, text]),
    'No rules.',
  );
}

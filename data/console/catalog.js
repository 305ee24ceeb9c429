// The catalogue: livestreams, assets, offers and rules as lists, the import of a file, and earlier versions.
import { call, get, query } from './api.js';
import { editor } from './catalog_edit.js';
import { differences, importer } from './catalog_import.js';
import { age, badge, clipped, count, el, link, quiet, when, yes } from './dom.js';
import { t } from './i18n.js';
import { list } from './list.js';
import { logo } from './names.js';
import { action, mayChange, panel } from './panel.js';
import { rules } from './rules.js';

const TABS = () => [
  ['livestreams', t`Livestreams`],
  ['assets', t`Videos on demand`],
  ['offers', t`Offers`],
  ['rules', t`Rules`],
  ['import', t`Import a file`],
  ['history', t`Previous versions`],
];
/** The kind of entry that a page edits, and the list that it belongs to. */
const EDITED = { livestream: 'livestreams', asset: 'assets', offer: 'offers' };

/** `#/catalog/LIST`, or the editor of an entry: `#/catalog/KIND/ID`, without the id for a new one. */
export function catalog({ rest: [part = 'livestreams', id], search, head }) {
  const here = EDITED[part] ?? part;
  const tabs = el(
    'nav.tabs',
    { 'aria-label': t`Catalogue` },
    TABS().map(([path, text]) =>
      el('a', { href: `#/catalog/${path}`, 'aria-current': path === here ? 'page' : undefined }, text),
    ),
  );
  if (EDITED[part]) {
    const [, text] = TABS().find(([path]) => path === here);
    return editor(part, id, (title, beside) => head(title, { back: [text, `#/catalog/${here}`], beside }));
  }
  const draws = { livestreams, assets, offers, rules, import: () => [importer()], history: versions };
  return [tabs, ...(draws[part] ?? livestreams)(search)];
}

const all = () => get('catalog?format=json');
const protocols = ({ playlist = {} }) => Object.keys(playlist).join(', ');
const name = (of, kind, text) => (mayChange() ? link(text, 'catalog', kind, of) : text);
const adder = (kind, text) =>
  mayChange() && el('p.actions', el('a.button', { href: `#/catalog/${kind}` }, text));

const TRUTH = () => [
  ['true', t`yes`],
  ['false', t`no`],
];
const isTrue = (member) => (row, value) => String(Boolean(row[member])) === value;

const livestreams = (search) => [
  adder('livestream', t`Add livestream`),
  list('', async () => (await all()).livestream ?? [], {
    search,
    csv: 'livestreams',
    sort: 'name',
    opens: true,
    none: t`No livestreams.`,
    matches: ({ id, name: text }) => [id, text],
    filters: [
      { name: 'live', label: t`Live`, options: TRUTH(), test: isTrue('live_rights') },
      { name: 'encrypted', label: t`Encrypted`, options: TRUTH(), test: isTrue('encrypted') },
    ],
    columns: [
      {
        head: t`Name`,
        id: 'name',
        grow: 3,
        value: (one) => one.name ?? one.id,
        cell: ({ id, name: text = id, images }) => el('span.named', { title: id }, logo(images?.length > 0 && id, text), el('span.clip', name(id, 'livestream', text), text !== id && [' ', quiet(id)])),
      },
      { head: t`Id`, csv: ({ id }) => id },
      { head: t`Live`, id: 'live', value: (one) => one.live_rights, cell: (one) => yes(one.live_rights) },
      {
        head: t`Catch-up`,
        id: 'catchup',
        value: (one) => one.catchup_days ?? 0,
        cell: (one) => (one.catchup_days ? t`${one.catchup_days} days` : badge(t`none`)),
      },
      { head: t`Start over`, id: 'over', value: (one) => one.start_over, cell: (one) => (one.start_over ? yes(true) : badge(t`no`)) },
      { head: t`Encrypted`, id: 'encrypted', value: (one) => one.encrypted, cell: (one) => (one.encrypted ? t`yes` : t`no`) },
      { head: t`Protocols`, id: 'protocols', value: protocols, cell: protocols },
      { head: t`Schedule`, cell: ({ id }) => link(t`Show`, 'schedule', id) },
    ],
  }),
];

/** One end of a time window, in TOML's date-time format. */
const time = (text) => (text === undefined ? quiet(t`open-ended`) : when(Date.parse(text) / 1000));

const assets = (search) => [
  adder('asset', t`Add video`),
  list('', async () => (await all()).asset ?? [], {
    search,
    csv: 'assets',
    sort: 'title',
    opens: true,
    none: t`No videos.`,
    matches: ({ id, title }) => [id, title],
    filters: [{ name: 'encrypted', label: t`Encrypted`, options: TRUTH(), test: isTrue('encrypted') }],
    columns: [
      { head: t`Title`, id: 'title', grow: 3, value: (one) => one.title ?? one.id, cell: ({ id, title = id }) => clipped(id, name(id, 'asset', title), title !== id && [' ', quiet(id)]) },
      { head: t`Id`, csv: ({ id }) => id },
      { head: t`Age rating`, id: 'age', value: (one) => one.pg_age ?? -1, cell: (one) => age(one.pg_age), csv: (one) => one.pg_age },
      {
        head: t`Available`,
        cell: (one) => (one.available ? [time(one.available.from), ' – ', time(one.available.to)] : t`always`),
        csv: ({ available: window }) => (window ? `${window.from ?? ''}/${window.to ?? ''}` : 'always'),
      },
      { head: t`Encrypted`, id: 'encrypted', value: (one) => one.encrypted, cell: (one) => (one.encrypted ? t`yes` : t`no`) },
      { head: t`Protocols`, id: 'protocols', value: protocols, cell: protocols },
    ],
  }),
];

const PACK_SHOWN = 5;

/** What an offer contains, by names, shortened. */
function contents({ pack: of, names }) {
  if (typeof of === 'string') return of === 'all' ? t`everything` : of;
  const ids = [...(of.livestreams ?? []), ...(of.assets ?? [])];
  const more = ids.length - PACK_SHOWN;
  const text = ids.slice(0, PACK_SHOWN).map((id) => names.get(id) ?? id).join(', ');
  return more > 0 ? t`${text} and ${count(more)} more` : text || t`empty`;
}

/** The offers, with the names of what they contain. */
async function named() {
  const { livestream = [], asset = [], offer = [] } = await all();
  const names = new Map([...livestream, ...asset].map(({ id, name: text, title }) => [id, text ?? title ?? id]));
  return offer.map((one) => ({ ...one, names }));
}

const offers = (search) => [
  adder('offer', t`Add offer`),
  list('', named, {
    search,
    csv: 'offers',
    sort: 'id',
    opens: true,
    none: t`No offers.`,
    matches: (one) => [one.id, one.type, contents(one)],
    columns: [
      { head: t`Id`, id: 'id', value: ({ id }) => id, cell: ({ id }) => name(id, 'offer', id) },
      { head: t`Type`, id: 'type', value: ({ type }) => type, cell: ({ type }) => type },
      { head: t`Contents`, id: 'pack', grow: 3, value: contents, cell: (one) => clipped(contents(one)) },
      { head: t`Countries`, id: 'countries', value: (one) => one.countries?.join(' '), cell: (one) => (one.countries?.length ? one.countries.join(', ') : t`everywhere`) },
      { head: t`On sale`, cell: (one) => (one.sale ? [time(one.sale.from), ' – ', time(one.sale.to)] : t`always`) },
      {
        head: t`Duration`,
        id: 'days',
        value: (one) => one.duration_days ?? 0,
        cell: (one) => (one.duration_days ? t`${one.duration_days} days` : t`until revoked`),
      },
    ],
  }),
];

const REMOVED_SHOWN = 8;

/** Catalogues that were replaced by an import or an undo. */
function versions(search) {
  const place = el('div');
  const show = async (version) => {
    const report = await call('POST', `catalog/undo${query({ version, dryRun: true })}`);
    place.replaceChildren(panel(t`What restoring version ${version} changes`, () => differences(report)));
    place.scrollIntoView({ block: 'nearest' });
  };
  const question = async (version) => {
    const report = await call('POST', `catalog/undo${query({ version, dryRun: true })}`);
    const { added, changed, removed } = report;
    const gone = report.changes.filter(({ change }) => change === 'removed').map(({ kind, id }) => `${kind} ${id}`);
    const more = gone.length - REMOVED_SHOWN;
    const first = gone.slice(0, REMOVED_SHOWN).join(', ');
    return [
      t`Replace the catalogue with version ${version}?`,
      t`${count(added)} entries are added, ${count(changed)} changed, ${count(removed)} removed.`,
      gone.length > 0 && (more > 0 ? t`Removed: ${first} and ${count(more)} more.` : t`Removed: ${first}.`),
      t`The current catalogue is kept as a previous version.`,
    ]
      .filter(Boolean)
      .join(' ');
  };
  const undo = async (self, version) => {
    const { added, changed, removed } = await call('POST', `catalog/undo${query({ version })}`);
    place.replaceChildren();
    await self.done(t`Restored version ${version}: ${added} added, ${changed} changed, ${removed} removed.`);
  };
  const number = (head, member) => ({ head, id: member, value: (one) => one[member], cell: (one) => count(one[member]) });
  return [
    place,
    list('', () => get('catalog/history'), {
      search,
      csv: 'catalogue-versions',
      none: t`No previous versions.`,
      matches: ({ version, replacedBy }) => [version, replacedBy],
      columns: [
        number(t`Version`, 'version'),
        { head: t`Replaced at`, id: 'at', value: (one) => one.replacedAt, cell: (one) => when(one.replacedAt) },
        { head: t`Replaced by`, id: 'by', value: (one) => one.replacedBy, cell: (one) => one.replacedBy },
        number(t`Livestreams`, 'livestreams'),
        number(t`Assets`, 'assets'),
        number(t`Offers`, 'offers'),
        number(t`Rules`, 'rules'),
        {
          head: '',
          cell: ({ version }, self) => [
            action(t`Compare`, () => show(version), { label: t`Compare version ${version}` }),
            ' ',
            action(t`Restore`, () => undo(self, version), {
              ask: () => question(version),
              label: t`Restore version ${version}`,
            }),
          ],
        },
      ],
    }),
  ];
}

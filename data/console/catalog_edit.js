// The editor of one entry of the catalogue. It sends the entry as a catalogue file, first as a dry run, and shows the
// difference before anything changes.
import { get } from './api.js';
import { extendedRights, images, interval, pack, playlists } from './catalog_fields.js';
import { proposal } from './catalog_import.js';
import { area, check, choice, el, field, link } from './dom.js';
import { t } from './i18n.js';
import { logo } from './names.js';
import { action, form, mayChange, panel, subject } from './panel.js';

const OFFER_TYPES = ['default', 'subscription', 'pass', 'rental', 'est', 'thirdparty'].map((one) => [one, one]);
const NEW = {
  livestream: { live_rights: true, encrypted: true, playlist: { dash: '' } },
  asset: { encrypted: true, playlist: { dash: '' } },
  offer: { type: 'subscription', pack: 'all' },
};

/** Members with a field of their own: name, label, kind of field. All others are edited as JSON. */
const MEMBERS = () => ({
  livestream: [
    ['name', t`Name`, 'text'],
    ['zone', t`Time zone`, 'text'],
    ['catchup_days', t`Catch-up days`, 'number'],
    ['streams', t`Concurrent streams`, 'number'],
    ['live_rights', t`Live`, 'check'],
    ['start_over', t`Start over`, 'check'],
    ['encrypted', t`Encrypted`, 'check'],
    ['verify_age', t`Verify age`, 'check'],
  ],
  asset: [
    ['title', t`Title`, 'text'],
    ['pg_age', t`Age rating`, 'number'],
    ['streams', t`Concurrent streams`, 'number'],
    ['encrypted', t`Encrypted`, 'check'],
  ],
  offer: [
    ['type', t`Type`, OFFER_TYPES],
    ['duration_days', t`Duration in days`, 'number'],
    ['countries', t`Countries, separated by commas`, 'list'],
  ],
});

/** Members of several values: each makes a part of the form of the present value. */
const PARTS = () => ({
  livestream: {
    extended_rights: extendedRights,
    playlist: playlists,
    images,
  },
  asset: {
    available: (value) => interval(t`Available`, value),
    playlist: playlists,
    images,
  },
  offer: {
    pack,
    sale: (value) => interval(t`On sale`, value),
  },
});

function control([member, text, kind], entry) {
  const value = entry[member];
  if (kind === 'check') return check(text, member, Boolean(value));
  if (Array.isArray(kind)) return choice(text, member, kind, value);
  if (kind === 'list') return field(text, member, { value: (value ?? []).join(', ') });
  return field(text, member, { type: kind, value: value ?? '', min: 0 });
}

function read([member, , kind], values) {
  const text = values[member];
  if (kind === 'check') return text !== undefined;
  if (kind === 'list') {
    const parts = text.split(',').map((one) => one.trim());
    const there = parts.filter(Boolean);
    return there.length ? there : undefined;
  }
  if (text === '') return undefined;
  return kind === 'number' ? Number(text) : text;
}

const fault = (text) => Object.assign(new Error(text), { status: 0 });

/** The entry that the form describes. */
function entryOf(fields, parts, values) {
  let others;
  try {
    others = JSON.parse(values.others || '{}');
  } catch (error) {
    throw fault(t`“Other settings” is not JSON: ${error.message}`);
  }
  const members = fields.map((one) => [one[0], read(one, values)]).filter(([, value]) => value !== undefined);
  const composed = parts.map(([member, { read: of }]) => [member, of()]).filter(([, value]) => value !== undefined);
  return { id: values.id, ...others, ...Object.fromEntries([...members, ...composed]) };
}

/** The page with the form for an entry; a new one without `id`. `head` heads it. */
export function editor(kind, id, head) {
  const load = async () => {
    const catalogue = await get('catalog?format=json');
    const entry = id ? (catalogue[kind] ?? []).find((one) => one.id === id) : NEW[kind];
    if (!entry) throw Object.assign(fault(t`The catalogue has no entry “${id}”`), { status: 404 });
    return { catalogue, entry };
  };
  head(t`New entry`);
  return subject(load, ({ catalogue, entry }) => {
    const name = entry.name ?? entry.title ?? id;
    const schedule = kind === 'livestream' && id && link(t`Schedule`, 'schedule', id);
    if (id) head(name, [kind === 'livestream' && logo(entry.images?.length > 0 && id, name), name !== id && el('code', id), schedule]);
    return [panel('', () => draw(kind, id, entry, catalogue))];
  });
}

function draw(kind, id, entry, catalogue) {
  if (!mayChange()) return el('pre', JSON.stringify(entry, null, 2));
  const fields = MEMBERS()[kind];
  const parts = Object.entries(PARTS()[kind]).map(([member, make]) => [member, make(entry[member], catalogue)]);
  const edited = new Set(['id', ...fields.map(([member]) => member), ...parts.map(([member]) => member)]);
  const others = Object.fromEntries(Object.entries(entry).filter(([member]) => !edited.has(member)));
  const place = el('div');
  const leave = () => {
    // The operator may have gone to another page before the answer came.
    if (place.isConnected) location.hash = `#/catalog/${kind}s`;
  };
  const preview = async (values) => {
    const file = JSON.stringify({ [kind]: [entryOf(fields, parts, values)] });
    await proposal(place, 'catalog/import', file, { merge: true }, leave);
  };
  const remove = () => saveWhole(place, (all) => (all[kind] = all[kind].filter((one) => one.id !== id)), leave);
  return [
    form(
      t`Preview`,
      [
        !id && field(t`Id`, 'id', { required: true }),
        id && el('input', { type: 'hidden', name: 'id', value: id }),
        fields.map((one) => control(one, entry)),
        parts.map(([, { element }]) => element),
        el('details.wide', el('summary', t`Other settings`), area(t`Other settings (JSON, as in the catalogue file)`, 'others', JSON.stringify(others, null, 2))),
      ],
      preview,
      { stacked: true },
    ),
    place,
    id && el('p.actions', action(t`Remove from the catalogue`, remove, { danger: true })),
  ];
}

/** Changes the whole catalogue with `change`, shows the difference in `place`, and takes it when asked to. */
export async function saveWhole(place, change, done) {
  const catalogue = await get('catalog?format=json');
  change(catalogue);
  await proposal(place, 'catalog/import', JSON.stringify(catalogue), {}, done);
}

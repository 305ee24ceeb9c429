// The editor of one entry of the catalogue. It sends the entry as a catalogue file, first as a dry run, and shows the
// difference before anything changes.
import { get } from './api.js';
import { proposal } from './catalog_import.js';
import { area, check, choice, el, field } from './dom.js';
import { t } from './i18n.js';
import { action, form, mayChange, panel } from './panel.js';

const OFFER_TYPES = ['default', 'subscription', 'pass', 'rental', 'est', 'thirdparty'].map((one) => [one, one]);
const NEW = {
  livestream: { live_rights: true, encrypted: true, playlist: { dash: 'https://…/manifest.mpd' } },
  asset: { encrypted: true, playlist: { dash: 'https://…/manifest.mpd' } },
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
function entryOf(fields, values) {
  let others;
  try {
    others = JSON.parse(values.others || '{}');
  } catch (error) {
    throw fault(t`“Other settings” is not JSON: ${error.message}`);
  }
  const members = fields.map((one) => [one[0], read(one, values)]).filter(([, value]) => value !== undefined);
  return { id: values.id, ...others, ...Object.fromEntries(members) };
}

/** A panel with the form for an entry; a new one without `id`. */
export const editor = (kind, id) =>
  panel(id ?? t`New entry`, async (self) => {
    const catalogue = await get('catalog?format=json');
    const entry = id ? (catalogue[kind] ?? []).find((one) => one.id === id) : NEW[kind];
    if (!entry) throw fault(t`The catalogue has no entry “${id}”`);
    const fields = MEMBERS()[kind];
    const own = new Set(['id', ...fields.map(([member]) => member)]);
    const others = Object.fromEntries(Object.entries(entry).filter(([member]) => !own.has(member)));
    const place = el('div');
    const leave = () => {
      // The operator may have gone to another page before the answer came.
      if (place.isConnected) location.hash = `#/catalog/${kind}s`;
    };
    const preview = async (values) => {
      const file = JSON.stringify({ [kind]: [entryOf(fields, values)] });
      await proposal(place, 'catalog/import', file, { merge: true }, leave);
    };
    const remove = () =>
      saveWhole(place, (all) => (all[kind] = all[kind].filter((one) => one.id !== id)), leave);
    return [
      form(
        t`Preview`,
        [
          !id && field(t`Id`, 'id', { required: true }),
          id && el('input', { type: 'hidden', name: 'id', value: id }),
          fields.map((one) => control(one, entry)),
          area(t`Other settings (JSON, as in the catalogue file)`, 'others', JSON.stringify(others, null, 2)),
        ],
        preview,
        { stacked: true },
      ),
      place,
      id && el('p.actions', action(t`Remove from the catalogue`, remove)),
      !mayChange() && el('pre', JSON.stringify(entry, null, 2)),
    ];
  });

/** Changes the whole catalogue with `change`, shows the difference in `place`, and takes it when asked to. */
export async function saveWhole(place, change, done) {
  const catalogue = await get('catalog?format=json');
  change(catalogue);
  await proposal(place, 'catalog/import', JSON.stringify(catalogue), {}, done);
}

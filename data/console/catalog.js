// The catalogue: livestreams, assets, offers and rules as lists, the import of a file, and earlier versions.
import { call, get, query } from './api.js';
import { editor, saveWhole } from './catalog_edit.js';
import { differences, importer } from './catalog_import.js';
import { age, area, badge, count, el, link, quiet, when, yes } from './dom.js';
import { t } from './i18n.js';
import { list } from './list.js';
import { action, confirmed, form, mayChange, panel } from './panel.js';

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
export function catalog({ rest: [part = 'livestreams', id], search }) {
  const here = EDITED[part] ?? part;
  const tabs = el(
    'nav.tabs',
    { 'aria-label': t`Catalogue` },
    TABS().map(([path, text]) =>
      el('a', { href: `#/catalog/${path}`, 'aria-current': path === here ? 'page' : undefined }, text),
    ),
  );
  if (EDITED[part]) return [tabs, editor(part, id)];
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
    none: t`No livestreams.`,
    matches: ({ id, name: text }) => [id, text],
    filters: [
      { name: 'live', label: t`Live`, options: TRUTH(), test: isTrue('live_rights') },
      { name: 'encrypted', label: t`Encrypted`, options: TRUTH(), test: isTrue('encrypted') },
    ],
    columns: [
      { head: t`Name`, id: 'name', value: (one) => one.name ?? one.id, cell: (one) => name(one.id, 'livestream', one.name ?? one.id) },
      { head: t`Id`, id: 'id', value: ({ id }) => id, cell: ({ id }) => el('code', id) },
      { head: t`Live`, id: 'live', value: (one) => one.live_rights, cell: (one) => yes(one.live_rights) },
      {
        head: t`Catch-up`,
        id: 'catchup',
        value: (one) => one.catchup_days ?? 0,
        cell: (one) => (one.catchup_days ? t`${one.catchup_days} days` : badge(t`none`)),
      },
      { head: t`Start over`, id: 'over', value: (one) => one.start_over, cell: (one) => yes(one.start_over) },
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
    none: t`No videos.`,
    matches: ({ id, title }) => [id, title],
    filters: [{ name: 'encrypted', label: t`Encrypted`, options: TRUTH(), test: isTrue('encrypted') }],
    columns: [
      { head: t`Title`, id: 'title', value: (one) => one.title ?? one.id, cell: (one) => name(one.id, 'asset', one.title ?? one.id) },
      { head: t`Id`, id: 'id', value: ({ id }) => id, cell: ({ id }) => el('code', id) },
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

/** What an offer contains, shortened. */
function pack({ pack: of }) {
  if (typeof of === 'string') return of === 'all' ? t`everything` : of;
  const ids = [...(of.livestreams ?? []), ...(of.assets ?? [])];
  const more = ids.length - PACK_SHOWN;
  const text = ids.slice(0, PACK_SHOWN).join(', ');
  return more > 0 ? t`${text} and ${count(more)} more` : text || t`empty`;
}

const offers = (search) => [
  adder('offer', t`Add offer`),
  list('', async () => (await all()).offer ?? [], {
    search,
    csv: 'offers',
    sort: 'id',
    none: t`No offers.`,
    matches: (one) => [one.id, one.type, pack(one)],
    columns: [
      { head: t`Id`, id: 'id', value: ({ id }) => id, cell: ({ id }) => name(id, 'offer', id) },
      { head: t`Type`, id: 'type', value: ({ type }) => type, cell: ({ type }) => type },
      { head: t`Contents`, id: 'pack', value: pack, cell: pack },
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

const RULE_EXAMPLE = '{\n  "livestream": "sport",\n  "title": "Match*",\n  "live": false\n}';

function rules(search) {
  const rulesPanel = list('', () => get('rules'), {
    search,
    csv: 'rules',
    none: t`No rules.`,
    matches: ({ text }) => [text],
    columns: [
      { head: t`No.`, id: 'number', value: ({ number }) => number, cell: ({ number }) => number },
      { head: t`Rule`, id: 'text', value: ({ text }) => text, cell: (rule, self) => [rule.text, mayChange() && ruleEditor(rule, self)] },
      { head: '', cell: (rule, self) => mayChange() && ruleRemover(rule, self) },
    ],
  });
  const add = (self) =>
    form(
      t`Add rule`,
      [area(t`Rule (JSON, as in the catalogue file)`, 'rule', '', { placeholder: RULE_EXAMPLE, required: true })],
      async ({ rule }) => {
        if (!(await addRule(parsed(rule)))) return;
        await self.done(t`Added the rule.`);
        rulesPanel.renew();
      },
      { stacked: true },
    );
  return [el('p.quiet', t`Later rules override earlier ones.`), rulesPanel, mayChange() && panel(t`Add rule`, add)];
}

/** Adds a rule, if need be after a question. Returns whether it was added. */
async function addRule(rule) {
  try {
    await call('POST', 'rules', rule);
  } catch (error) {
    if (error.code !== 'IMPORT_HELD') throw error;
    if (!(await confirmed(t`This rule has no condition: every broadcast loses rights. Add it?`, t`Add rule`))) return false;
    await call('POST', 'rules?accept', rule);
  }
  return true;
}

/** JSON that a person typed. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw Object.assign(new Error(t`This is not JSON: ${error.message}`), { status: 0 });
  }
}

function ruleRemover({ number, text }, self) {
  const remove = async () => {
    await call('DELETE', `rules/${number}${query({ text })}`);
    await self.done(t`Removed rule ${number}.`);
  };
  return action(t`Remove`, remove, { ask: t`Remove rule ${number}: ${text}?`, label: t`Remove rule ${number}` });
}

function ruleEditor({ number, rule }, self) {
  const details = el('details', el('summary', t`Edit`));
  details.addEventListener('toggle', () => {
    if (!details.open || details.children.length > 1) return;
    const save = (values) =>
      saveWhole(details, (catalogue) => (catalogue.rule[number - 1] = parsed(values.rule)), () => self.done(t`Saved.`));
    details.append(form(t`Preview`, [area(t`Rule`, 'rule', JSON.stringify(rule, null, 2))], save, { stacked: true }));
  });
  return details;
}

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

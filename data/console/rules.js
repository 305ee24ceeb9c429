// Rules of the catalogue: a list, a form for conditions and rights, and a preview of the broadcasts that a rule hits.
import { call, get, query } from './api.js';
import { extendedRights, interval, picks } from './catalog_fields.js';
import { saveWhole } from './catalog_edit.js';
import { area, badge, choice, count, el, field, link, period, quiet, table } from './dom.js';
import { longTime, t } from './i18n.js';
import { list } from './list.js';
import { action, confirmed, form, mayChange, panel } from './panel.js';

const RULE_EXAMPLE = '{\n  "livestream": "sport",\n  "title": "Match*",\n  "live": false\n}';

const SWITCHES = () => [
  ['live', t`Live`],
  ['catchup', t`Catch-up`],
  ['start_over', t`Start over`],
];
const NAMES = () => ({
  ...Object.fromEntries(SWITCHES()),
  catchup_days: t`Catch-up days`,
  pause: t`Pause`,
  rewind: t`Rewind`,
  fastForward: t`Fast forward`,
});

const several = (value) => (value === undefined ? [] : [value].flat());
const isTime = (text) => /^\d\d:\d\d/.test(text ?? '');

/** The conditions of a rule, with the names of channels. */
function conditions({ livestream, title, category, rating, window: when }, names) {
  const ends = (from, to, open) => `${from ?? open} – ${to ?? open}`;
  const local = (text) => text && longTime(Date.parse(text) / 1000);
  const hours = when && (isTime(when.from) ? ends(when.from, when.to, '') : ends(local(when.from), local(when.to), '…'));
  const all = [
    several(livestream).map((id) => names.get(id) ?? id).join(', '),
    title && t`title ${title}`,
    category && t`category ${category}`,
    rating && t`age ${ends(rating.from, rating.to, '…')}`,
    hours,
  ].filter(Boolean);
  return all.length ? all.join(' · ') : t`every broadcast`;
}

/** The rights that a rule sets. */
function effects({ extended_rights: extended, ...rule }) {
  const names = NAMES();
  const all = Object.entries({ ...rule, ...extended }).filter(([name]) => name in names);
  return all.map(([name, value]) => [badge(`${names[name]}: ${value === true ? t`yes` : value === false ? t`no` : value}`, value === false || value === 0 ? 'bad' : ''), ' ']);
}

export function rules(search) {
  let names = new Map();
  const all = list(
    '',
    async () => {
      const [rows, { livestream = [] }] = await Promise.all([get('rules'), get('catalog?format=json')]);
      names = new Map(livestream.map(({ id, name }) => [id, name ?? id]));
      return rows;
    },
    {
      search,
      csv: 'rules',
      none: t`No rules.`,
      matches: ({ text, rule }) => [text, conditions(rule, names)],
      columns: [
        { head: t`No.`, id: 'number', value: ({ number }) => number, cell: ({ number }) => number },
        { head: t`Applies to`, id: 'text', value: ({ text }) => text, cell: ({ rule, text }) => el('span', { title: text }, conditions(rule, names)) },
        { head: t`Rights`, cell: ({ rule }) => effects(rule) },
        { head: '', cell: (rule, self) => mayChange() && [edit(rule, self), ' ', remover(rule, self)] },
      ],
    },
  );
  const add = async (self) => {
    const save = async (rule) => {
      if (!(await addRule(rule))) return;
      await self.done(t`Added the rule.`);
      all.renew();
    };
    return editor({}, await channels(), t`Add rule`, save);
  };
  return [el('p.quiet', t`Later rules override earlier ones.`), all, mayChange() && panel(t`Add rule`, add)];
}

async function channels() {
  const { livestream = [] } = await get('catalog?format=json');
  return livestream.map(({ id, name }) => [id, name ?? id]);
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

function remover({ number, text }, self) {
  const remove = async () => {
    await call('DELETE', `rules/${number}${query({ text })}`);
    await self.done(t`Removed rule ${number}.`);
  };
  return action(t`Remove`, remove, { ask: t`Remove rule ${number}: ${text}?`, label: t`Remove rule ${number}` });
}

/** Opens the editor of a rule in the result area of the list. */
function edit({ number, rule }, self) {
  const open = async () => {
    const place = el('div');
    const save = (changed) => saveWhole(place, (catalogue) => (catalogue.rule[number - 1] = changed), () => self.done(t`Saved.`));
    const box = panel(t`Rule ${number}`, async () => [editor(rule, await channels(), t`Save`, save), place]);
    self.show(box);
    box.scrollIntoView({ block: 'nearest' });
  };
  return action(t`Edit`, open, { label: t`Edit rule ${number}` });
}

/** A form for a rule: what it hits is shown before `save` gets it. JSON is for experts. */
function editor(rule, livestreams, verb, save) {
  const states = [['', t`unchanged`], ['true', t`yes`], ['false', t`no`]];
  const place = el('div');
  const chosen = picks(t`Channels (none: all)`, livestreams, several(rule.livestream));
  const extended = extendedRights(rule.extended_rights, true);
  const hours = isTime(rule.window?.from);
  const once = interval(t`Only in one period`, hours ? undefined : rule.window);
  const show = async (made) => {
    const hits = await call('POST', 'rules/preview', made);
    place.replaceChildren(el('h3', t`What the rule hits`), ...preview(hits), el('p.actions', action(verb, () => save(made), { main: true })));
    place.scrollIntoView({ block: 'nearest' });
  };
  const number = (text, name, value) => field(text, name, { type: 'number', min: 0, max: 366, value: value ?? '' });
  const main = form(
    t`Preview`,
    [
      chosen.element,
      field(t`Title (* for any characters)`, 'title', { value: rule.title ?? '', placeholder: 'Match*' }),
      field(t`Category`, 'category', { value: rule.category ?? '' }),
      number(t`From age`, 'least', rule.rating?.from),
      number(t`To age`, 'most', rule.rating?.to),
      field(t`Every day from`, 'from', { type: 'time', value: hours ? rule.window.from.slice(0, 5) : '' }),
      field(t`Every day until`, 'to', { type: 'time', value: hours ? rule.window.to.slice(0, 5) : '' }),
      SWITCHES().map(([name, text]) => choice(text, name, states, rule[name] === undefined ? '' : String(rule[name]))),
      number(t`Catch-up days`, 'catchup_days', rule.catchup_days),
      once.element,
      extended.element,
    ],
    (values) => show(made(values, once.read(), chosen.read(), extended.read())),
    { stacked: true },
  );
  const json = JSON.stringify(rule, null, 2);
  const expert = form(
    t`Preview`,
    [area(t`Rule (JSON, as in the catalogue file)`, 'rule', json === '{}' ? '' : json, { placeholder: RULE_EXAMPLE, required: true })],
    (values) => show(parsed(values.rule)),
    { stacked: true },
  );
  return el('div', main, el('details', el('summary', t`As JSON`), expert), place);
}

/** The rule that the fields describe. */
function made(values, period, livestream, extended) {
  const { title, category, least, most, from, to, catchup_days: days, ...switches } = values;
  const is = (value) => value !== '' && value !== undefined;
  const ages = (is(least) || is(most)) && { from: Number(least || 0), to: Number(most || 99) };
  if (period && (from || to)) throw Object.assign(new Error(t`Give hours of every day, or one period`), { status: 0 });
  const hours = is(from) && is(to) && { from, to };
  const rights = Object.entries(switches).filter(([, value]) => value);
  return {
    ...(livestream.length && { livestream: livestream.length === 1 ? livestream[0] : livestream }),
    ...(title && { title }),
    ...(category && { category }),
    ...(ages && { rating: ages }),
    ...((hours || period) && { window: hours || period }),
    ...Object.fromEntries(rights.map(([name, value]) => [name, value === 'true'])),
    ...(is(days) && { catchup_days: Number(days) }),
    ...(extended && { extended_rights: extended }),
  };
}

function preview({ broadcasts, livestreams, first }) {
  if (!broadcasts) return [el('p.quiet', t`No broadcast of the schedule matches. It applies to those that an import brings.`)];
  const rows = first.map((one) => [
    period(one.start, one.stop),
    link(one.title, 'broadcast', one.broadcastId),
    one.livestreamName,
  ]);
  return [
    el('p', t`${count(broadcasts)} broadcasts on ${count(livestreams)} channels, from now on.`),
    table([t`Time`, { head: t`Title`, grow: 3 }, t`Channel`], rows),
    broadcasts > first.length && quiet(t`and ${count(broadcasts - first.length)} more`),
  ];
}

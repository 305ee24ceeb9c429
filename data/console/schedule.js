// Current broadcasts, the broadcasts of a day, and the rights of one broadcast.
import { at, call, get, query } from './api.js';
import { badge, choice, clock, el, facts, field, link, quiet, table, when, yes } from './dom.js';
import { action, form, mayChange, panel } from './panel.js';

const EVERY = 30; // seconds

export function schedule({ rest: [livestream], search, about }) {
  const content = about.role !== 'agent';
  if (!livestream) return [panel('', () => live(), { every: EVERY })];
  return [panel(livestream, () => day(livestream, search.get('day'), content))];
}

/** A date in the browser's time zone, as the API writes it: YYYY-MM-DD. */
const isoDay = (date) =>
  [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((n) => String(n).padStart(2, '0')).join('-');

function shifted(day, days) {
  const [year, month, date] = day.split('-').map(Number);
  return isoDay(new Date(year, month - 1, date + days));
}

async function live() {
  const views = await get('schedule/live');
  const rows = Object.entries(views).map(([id, { current, next }]) => [
    link(id, 'schedule', id),
    airing(current),
    next ? airing(next) : quiet('–'),
  ]);
  return table(['Livestream', 'Now', 'Next'], rows, 'No current broadcasts.');
}

const airing = ({ title, start, stop, liveAvailable }) => [
  title,
  el('br'),
  quiet(clock(start), '–', clock(stop)),
  !liveAvailable && [' ', badge('no live rights', 'warn')],
];

const catchup = (interval) => (interval ? [when(interval.from), ' – ', when(interval.to)] : badge('no', 'bad'));

const broadcastsOf = async (livestream, date) =>
  (await get(at`schedule/day/${date}` + query({ livestreams: livestream })))[livestream];

// A TV day starts in the morning in the livestream's time zone, so the current one may have the previous or next date
// in the browser's time zone.
async function presentDay(livestream, now) {
  const local = isoDay(new Date(now * 1000));
  for (const date of [local, shifted(local, -1), shifted(local, 1)]) {
    const list = await broadcastsOf(livestream, date);
    if (list.some((one) => one.start <= now && now < one.stop)) return date;
  }
  return local;
}

async function day(livestream, asked, content) {
  // The service's clock: a lab may have moved it.
  const { now } = await get('clock');
  const date = asked ?? (await presentDay(livestream, now));
  const list = await broadcastsOf(livestream, date);
  const rows = list.map((one) => [
    [clock(one.start), '–', clock(one.stop)],
    [
      content ? link(one.title, 'broadcast', one.id) : one.title,
      one.start <= now && now < one.stop && [' ', badge('now', 'good')],
    ],
    one.pgAge ?? quiet('–'),
    yes(one.liveAvailable),
    catchup(one.catchupInterval),
    el('code', one.id),
  ]);
  const path = `#/schedule/${encodeURIComponent(livestream)}`;
  const to = (text, other) => el('a', { href: `${path}?day=${other}` }, text);
  return [
    el(
      'p.actions',
      to('← Previous day', shifted(date, -1)),
      el('strong', date),
      to('Next day →', shifted(date, 1)),
      el('a', { href: path }, 'Today'),
    ),
    table(['Time', 'Title', 'Age rating', 'Live', 'Catch-up', 'Id'], rows, 'No broadcasts on this day.'),
  ];
}

// -- One broadcast

export const broadcast = ({ rest: [id] }) => [panel('Rights', (self) => rights(id, self))];

const RIGHTS = [
  ['live', 'Live'],
  ['catchup', 'Catch-up'],
  ['start_over', 'Start over'],
];
const AS_IS = [
  ['', 'not overridden'],
  ['true', 'yes'],
  ['false', 'no'],
];

const shown = (value) => (typeof value === 'boolean' ? yes(value) : String(value));

/** The members that a layer sets, with their names in the catalogue file. */
function says(members) {
  const { extended_rights: extended = {}, ...others } = members;
  return Object.entries({ ...others, ...extended })
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');
}

async function rights(id, self) {
  const said = await get(at`broadcasts/${id}/why`);
  const own = said.layers.find(({ by }) => by === 'broadcast');
  const layers = said.layers.map(({ by, applies, misfit, rule, says: members }) => [
    by,
    applies ? badge('applies', 'good') : badge(misfit ? `${misfit} does not match` : 'does not apply'),
    [rule && [rule, el('br')], quiet(says(members))],
  ]);
  const overrule = async ({ catchup_days: days, ...chosen }) => {
    // PUT replaces the whole override: members without a field in this form are sent again.
    const members = own?.says.extended_rights ? { extended_rights: own.says.extended_rights } : {};
    for (const [name, value] of Object.entries(chosen)) if (value) members[name] = value === 'true';
    if (days) members.catchup_days = Number(days);
    await call('PUT', at`broadcasts/${id}/rights`, members);
    await self.done(`Override set: ${says(members)}.`);
  };
  const clear = async () => {
    await call('DELETE', at`broadcasts/${id}/rights`);
    await self.done('Override removed. The rights of the livestream and the rules apply.');
  };
  const before = (name) => own?.says[name] ?? '';
  return [
    facts([
      ['Title', el('strong', said.title)],
      ['Livestream', link(said.livestreamId, 'schedule', said.livestreamId)],
      ['Time', [when(said.start), ' – ', clock(said.stop)]],
      ['Age rating', said.pgAge],
      ['Live', yes(said.liveAvailable)],
      ['Catch-up', catchup(said.catchupInterval)],
    ]),
    el('h3', 'Effective rights'),
    table(
      ['Right', 'Value', 'Set by'],
      said.rights.map(({ right, value, by }) => [right, shown(value), by]),
    ),
    el('h3', 'Layers, in ascending precedence'),
    table(['Set by', 'State', 'Rights'], layers),
    mayChange() && el('h3', 'Override this broadcast'),
    form(
      'Set override',
      [
        ...RIGHTS.map(([name, label]) => choice(label, name, AS_IS, before(name))),
        field('Catch-up days', 'catchup_days', {
          type: 'number',
          min: 0,
          max: 366,
          size: 6,
          value: before('catchup_days'),
        }),
      ],
      overrule,
    ),
    own && el('p.actions', action('Remove override', clear, { ask: `Remove the override of “${said.title}”?` })),
  ];
}

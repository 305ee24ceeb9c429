// What is on, the broadcasts of a day, and the rights of one of them.
import { at, call, get, query } from './api.js';
import { badge, choice, clock, el, facts, field, link, quiet, table, when, yes } from './dom.js';
import { action, form, mayChange, panel } from './panel.js';

const EVERY = 30; // seconds

export function schedule({ rest: [livestream], search, about }) {
  const content = about.role !== 'agent';
  if (!livestream) return [panel('', () => live(), { every: EVERY })];
  return [panel(livestream, () => day(livestream, search.get('day'), content))];
}

/** The day of a date where the operator is, as the interface writes it. */
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
  return table(['Livestream', 'Now', 'Next'], rows, 'Nothing is on.');
}

const airing = ({ title, start, stop, liveAvailable }) => [
  title,
  el('br'),
  quiet(clock(start), '–', clock(stop)),
  !liveAvailable && [' ', badge('not live', 'warn')],
];

const catchup = (interval) => (interval ? [when(interval.from), ' – ', when(interval.to)] : badge('no', 'bad'));

const broadcastsOf = async (livestream, date) =>
  (await get(at`schedule/day/${date}` + query({ livestreams: livestream })))[livestream];

// A TV day begins in the morning of the livestream's zone, so the present one can have the date of
// the day before or after in the browser's zone.
async function presentDay(livestream, now) {
  const local = isoDay(new Date(now * 1000));
  for (const date of [local, shifted(local, -1), shifted(local, 1)]) {
    const list = await broadcastsOf(livestream, date);
    if (list.some((one) => one.start <= now && now < one.stop)) return date;
  }
  return local;
}

async function day(livestream, asked, content) {
  // By the clock of the service, which in a laboratory may be moved.
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
      to('← Before', shifted(date, -1)),
      el('strong', date),
      to('After →', shifted(date, 1)),
      el('a', { href: path }, 'Today'),
    ),
    table(['Time', 'Title', 'Age', 'Live', 'Catch-up', 'Id'], rows, 'No broadcasts on this day.'),
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
  ['', 'as the rules say'],
  ['true', 'yes'],
  ['false', 'no'],
];

const shown = (value) => (typeof value === 'boolean' ? yes(value) : String(value));

/** What a layer says, in the names of the catalogue file. */
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
    applies ? badge('holds', 'good') : badge(misfit ? `not its ${misfit}` : 'does not hold'),
    [rule && [rule, el('br')], quiet(says(members))],
  ]);
  const overrule = async ({ catchup_days: days, ...chosen }) => {
    // What is said takes the place of all that was: what has no field here is said again.
    const members = own?.says.extended_rights ? { extended_rights: own.says.extended_rights } : {};
    for (const [name, value] of Object.entries(chosen)) if (value) members[name] = value === 'true';
    if (days) members.catchup_days = Number(days);
    await call('PUT', at`broadcasts/${id}/rights`, members);
    await self.done(`Said of this broadcast: ${says(members)}.`);
  };
  const clear = async () => {
    await call('DELETE', at`broadcasts/${id}/rights`);
    await self.done('It has the rights that livestream and rules give it.');
  };
  const before = (name) => own?.says[name] ?? '';
  return [
    facts([
      ['Title', el('strong', said.title)],
      ['Livestream', link(said.livestreamId, 'schedule', said.livestreamId)],
      ['Time', [when(said.start), ' – ', clock(said.stop)]],
      ['Age', said.pgAge],
      ['Live', yes(said.liveAvailable)],
      ['Catch-up', catchup(said.catchupInterval)],
    ]),
    el('h3', 'Effective rights'),
    table(
      ['Right', 'Is', 'By'],
      said.rights.map(({ right, value, by }) => [right, shown(value), by]),
    ),
    el('h3', 'Everything that was said, the last word last'),
    table(['By', '', 'Says'], layers),
    mayChange() && el('h3', 'Override this broadcast'),
    form(
      'Set',
      [
        ...RIGHTS.map(([name, label]) => choice(label, name, AS_IS, before(name))),
        field('Days of catch-up', 'catchup_days', {
          type: 'number',
          min: 0,
          max: 366,
          size: 6,
          value: before('catchup_days'),
        }),
      ],
      overrule,
    ),
    own && el('p.actions', action('Take it back', clear, { ask: `Take back what was said of “${said.title}” alone?` })),
  ];
}

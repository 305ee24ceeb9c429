// One broadcast: its rights, which layer sets them, and the override of this broadcast.
import { at, call, get } from './api.js';
import { age, back, badge, choice, el, facts, field, link, period, quiet, table, yes } from './dom.js';
import { t } from './i18n.js';
import { action, form, mayChange, panel } from './panel.js';

const catchup = (interval) => (interval ? period(interval.from, interval.to) : badge(t`no`, 'bad'));

export const broadcast = ({ rest: [id] }) => [back(t`Schedule`, '#/schedule'), panel(t`Rights`, (self) => rights(id, self))];

const RIGHTS = () => [
  ['live', t`Live`],
  ['catchup', t`Catch-up`],
  ['start_over', t`Start over`],
];
const AS_IS = () => [
  ['', t`not overridden`],
  ['true', t`yes`],
  ['false', t`no`],
];

/** The names of rights; those that the catalogue file defines beyond these keep theirs. */
const NAMES = () => ({
  ...Object.fromEntries(RIGHTS()),
  catchup_days: t`Catch-up days`,
  pause: t`Pause`,
  rewind: t`Rewind`,
  fastForward: t`Fast forward`,
});

const shown = (value) => (typeof value === 'boolean' ? yes(value) : String(value));
const plain = (value) => (typeof value === 'boolean' ? (value ? t`yes` : t`no`) : value);

/** The rights that a layer sets. */
function says(members) {
  const { extended_rights: extended = {}, ...others } = members;
  const names = NAMES();
  return Object.entries({ ...others, ...extended })
    .map(([name, value]) => `${names[name] ?? name}: ${plain(value)}`)
    .join(', ');
}

async function rights(id, self) {
  const said = await get(at`broadcasts/${id}/why`);
  const own = said.layers.find(({ by }) => by === 'broadcast');
  const layers = said.layers.map(({ by, applies, mismatch, rule, effects: members }) => [
    by,
    applies ? badge(t`applies`, 'good') : badge(mismatch ? t`${mismatch} does not match` : t`does not apply`),
    [rule && [rule, el('br')], quiet(says(members))],
  ]);
  const overrule = async ({ catchup_days: days, ...chosen }) => {
    // PUT replaces the whole override: members without a field in this form are sent again.
    const members = own?.effects.extended_rights ? { extended_rights: own.effects.extended_rights } : {};
    for (const [name, value] of Object.entries(chosen)) if (value) members[name] = value === 'true';
    if (days) members.catchup_days = Number(days);
    await call('PUT', at`broadcasts/${id}/rights`, members);
    await self.done(t`Override set: ${says(members)}.`);
  };
  const clear = async () => {
    await call('DELETE', at`broadcasts/${id}/rights`);
    await self.done(t`Override removed. The rights of the livestream and the rules apply.`);
  };
  const noDays = said.rights.some(({ right, value }) => right === 'catchup_days' && value === 0);
  const effective = ({ right, value }) =>
    right === 'catchup' && value && noDays ? [shown(value), ' ', quiet(t`for 0 days, so none`)] : shown(value);
  const before = (name) => own?.effects[name] ?? '';
  return [
    facts([
      [t`Title`, el('strong', said.title)],
      [t`Livestream`, link(said.livestreamId, 'schedule', said.livestreamId)],
      [t`Time`, period(said.start, said.stop)],
      [t`Age rating`, age(said.pgAge)],
      [t`Live`, yes(said.liveAvailable)],
      [t`Catch-up`, catchup(said.catchupInterval)],
    ]),
    el('h3', t`Effective rights`),
    table(
      [t`Right`, t`Value`, t`Set by`],
      said.rights.map((one) => [NAMES()[one.right] ?? one.right, effective(one), one.by]),
      undefined,
      { compact: true },
    ),
    el('h3', t`Where the rights come from (later wins)`),
    table([t`Set by`, t`State`, t`Rights`], layers),
    mayChange() && el('h3', t`Override this broadcast`),
    form(
      t`Set override`,
      [
        ...RIGHTS().map(([name, label]) => choice(label, name, AS_IS(), before(name))),
        field(t`Catch-up days`, 'catchup_days', {
          type: 'number',
          min: 0,
          max: 366,
          size: 6,
          value: before('catchup_days'),
        }),
      ],
      overrule,
    ),
    own && el('p.actions', action(t`Remove override`, clear, { ask: t`Remove the override of “${said.title}”?` })),
  ];
}

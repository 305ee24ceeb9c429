// One broadcast: its rights, which layer sets them, and the override of this broadcast.
import { at, call, get } from './api.js';
import { age, badge, choice, el, facts, field, link, period, quiet, table, yes } from './dom.js';
import { isoDay, t } from './i18n.js';
import { logo, still } from './names.js';
import { action, form, mayChange, panel, subject } from './panel.js';

const catchup = (interval) => (interval ? period(interval.from, interval.to) : badge(t`no`));

export function broadcast({ rest: [id], head }) {
  head(t`Broadcast`, { back: [t`Schedule`, '#/schedule'] });
  return subject(
    () => get(at`broadcasts/${id}/why`),
    (said) => {
      const { livestreamId, livestreamName, start, stop } = said;
      const channel = el('span.named', { title: livestreamId }, logo(livestreamId, livestreamName), link(livestreamName, 'schedule', livestreamId));
      const back = [t`Schedule`, `#/schedule?day=${isoDay(start)}`];
      head(said.title, { back, beside: [channel, el('span', period(start, stop)), said.pgAge !== undefined && badge(age(said.pgAge))] });
      return [panel(t`Programme`, () => about(said)), panel(t`Rights`, (self) => rights(id, self))];
    },
  );
}

/** What the guide says of it. */
function about({ broadcastId, subtitle, season, episode, description, categories, pgAge }) {
  const part = [season && t`season ${season}`, episode && t`episode ${episode}`].filter(Boolean).join(', ');
  return [
    still(broadcastId),
    (subtitle || part) && el('p', el('strong', subtitle), ' ', quiet(part)),
    description ? el('p', description) : el('p.quiet', t`The guide has no description.`),
    facts([
      [t`Categories`, categories.length ? categories.map((one) => [badge(one), ' ']) : undefined],
      [t`Age rating`, age(pgAge)],
      [t`Id`, el('code', broadcastId)],
    ]),
  ];
}

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

const plain = (value) => (typeof value === 'boolean' ? (value ? t`yes` : t`no`) : value);

/** The rights that a layer sets. */
function says(members) {
  const { extended_rights: extended = {}, ...others } = members;
  const names = NAMES();
  return Object.entries({ ...others, ...extended })
    .map(([name, value]) => `${names[name] ?? name}: ${plain(value)}`)
    .join(', ');
}

/** The rights that hold. Catch-up is one of them: whether it is allowed and for how many days make one period. */
function effective({ rights: all, liveAvailable, catchupInterval }) {
  const by = new Map(all.map((one) => [one.right, one]));
  const days = by.get('catchup_days');
  const decides = by.get('catchup')?.value === false ? by.get('catchup') : (days ?? by.get('catchup'));
  const value = { live: yes(liveAvailable), catchup: catchup(catchupInterval) };
  const rows = all.filter(({ right }) => right !== 'catchup_days');
  return rows.map((one) => [
    NAMES()[one.right] ?? one.right,
    value[one.right] ?? (one.value ? badge(t`yes`, 'good') : badge(t`no`)),
    one.right === 'catchup' ? decides.by : one.by,
  ]);
}

async function rights(id, self) {
  const said = await get(at`broadcasts/${id}/why`);
  const override = said.layers.find(({ by }) => by === 'broadcast');
  const layers = said.layers.map(({ by, applies, mismatch, rule, effects: members }) => [
    by,
    applies ? badge(t`applies`, 'good') : badge(mismatch ? t`${mismatch} does not match` : t`does not apply`),
    [rule && [rule, el('br')], quiet(says(members))],
  ]);
  const overrule = async ({ catchup_days: days, ...chosen }) => {
    // PUT replaces the whole override: members without a field in this form are sent again.
    const members = override?.effects.extended_rights ? { extended_rights: override.effects.extended_rights } : {};
    for (const [name, value] of Object.entries(chosen)) if (value) members[name] = value === 'true';
    if (days) members.catchup_days = Number(days);
    await call('PUT', at`broadcasts/${id}/rights`, members);
    await self.done(t`Override set: ${says(members)}.`);
  };
  const clear = async () => {
    await call('DELETE', at`broadcasts/${id}/rights`);
    await self.done(t`Override removed. The rights of the livestream and the rules apply.`);
  };
  const before = (name) => override?.effects[name] ?? '';
  return [
    el('h3', t`Effective rights`),
    table([t`Right`, t`Value`, t`Set by`], effective(said), undefined, { compact: true }),
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
    override && el('p.actions', action(t`Remove override`, clear, { ask: t`Remove the override of “${said.title}”?` })),
  ];
}

// One user: account, offers, playback and login sessions.
import { at, call, get, query } from './api.js';
import { badge, choice, count, el, facts, field, quiet, stamp, table, when, zoneNote } from './dom.js';
import { localTime, t, zoneName } from './i18n.js';
import { action, form, mayChange, panel, subject } from './panel.js';
import { playing } from './sessions.js';
import { giveable } from './users.js';
import { whyForm } from './why.js';

const ALL = () => [t`All users`, '#/users'];

/** The page of a user: what plays and may be played, and beside it the account. */
export function one(id, head) {
  const draw = () => {
    const streams = panel(t`Playback sessions`, async (self) => playing(await get(at`users/${id}/streams`), self));
    return [
      el(
        'div.sides',
        el(
          'div',
          streams,
          panel(t`Devices`, (self) => devices(id, self)),
          panel(t`Offers`, (self) => grants(id, self)),
          panel(t`Login sessions`, (self) => logins(id, self)),
        ),
        el(
          'div',
          panel(t`Account`, (self) => account(id, self, head)),
          panel(t`Entitlement check`, () => whyForm({ known: id })),
        ),
      ),
    ];
  };
  head(t`User`, { back: ALL() });
  return subject(() => get(at`users/${id}`), draw);
}

async function account(id, self, head) {
  const [user, partners] = await Promise.all([get(at`users/${id}`), get('partners')]);
  const partner = partners.find(({ partnerId }) => partnerId === user.partnerId);
  const { email, parentalControl: parental } = user;
  const state = () => (user.disabled ? badge(t`disabled`, 'bad') : badge(t`active`, 'good'));
  head(email, {
    back: ALL(),
    beside: [state(), el('span', [user.name, partner?.name].filter(Boolean).join(' · ')), el('a.button.small', { href: `#/requests${query({ user: id })}` }, t`Requests of this user`), zoneNote()],
  });
  /** Returns a handler that changes the user and reports `text`. */
  const change = (text, method, path, members) => async () => {
    await call(method, at`users/${id}` + path, members);
    await self.done(text);
  };
  return [
    facts([
      [t`Name`, user.name],
      [t`Partner`, partner?.name ?? user.partnerId],
      [t`State`, state()],
      [t`Country`, user.country],
      [t`Language`, user.locale],
      [t`Date of birth`, user.birthDate],
      [t`Created`, when(user.createdTimestamp)],
      [t`Tags`, user.tags.length ? user.tags.map((tag) => [badge(tag), ' ']) : undefined],
      [t`Parental control`, parental.enabled ? t`PIN required from age ${parental.limit}` : t`off`],
      [t`PIN`, user.hasPin ? t`set` : t`none`],
      [t`Id`, el('code', user.userId)],
    ]),
    mayChange() && editor(user, self),
    el('p.actions', [
      user.disabled
        ? action(t`Enable account`, change(t`Account enabled.`, 'PUT', '', { disabled: false }))
        : action(t`Disable account`, change(t`Account disabled.`, 'PUT', '', { disabled: true }), {
            ask: t`Disable the account of ${email}? Its login and playback sessions end. You can enable it again.`,
          }),
      action(t`Send new PIN`, change(t`Queued a mail with a new PIN.`, 'PUT', '/pin', {}), {
        ask: t`Send a new PIN to ${email}? The current PIN stops working.`,
      }),
      action(t`Remove all devices`, change(t`Removed all devices.`, 'DELETE', '/devices'), {
        ask: t`Remove all devices of ${email}? Playback on them ends.`,
      }),
    ]),
  ];
}

const PARENTAL_LIMITS = [6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 18];

/** The members that operators may change. */
function editor(user, self) {
  const { parentalControl: parental } = user;
  const save = async ({ tags, parental: limit, ...texts }) => {
    const members = Object.fromEntries(Object.entries(texts).filter(([, text]) => text));
    const list = tags.split(',').map((tag) => tag.trim());
    members.tags = list.filter(Boolean);
    if (members.email === user.email) delete members.email;
    members.parentalControl = limit ? { enabled: true, limit: Number(limit) } : { enabled: false };
    await call('PUT', at`users/${user.userId}`, members);
    await self.done(t`Saved.`);
  };
  // The API changes these members and removes none.
  const kept = (value) => ({ value: value ?? '', required: Boolean(value) });
  const limits = [...new Set([...PARENTAL_LIMITS, parental.limit])].sort((a, b) => a - b);
  return el(
    'details',
    el('summary', t`Edit`),
    form(
      t`Save`,
      [
        field(t`E-mail`, 'email', { ...kept(user.email), type: 'email', maxlength: 254 }),
        field(t`Name`, 'name', { ...kept(user.name), maxlength: 128 }),
        field(t`Country`, 'country', { ...kept(user.country), maxlength: 2, size: 4 }),
        field(t`Language`, 'locale', { ...kept(user.locale), size: 6 }),
        field(t`Date of birth`, 'birthDate', { ...kept(user.birthDate), type: 'date' }),
        field(t`Tags, separated by commas`, 'tags', { value: user.tags.join(', ') }),
        choice(
          t`Parental control`,
          'parental',
          [['', t`off`], ...limits.map((age) => [age, t`PIN from age ${age}`])],
          parental.enabled ? parental.limit : '',
        ),
      ],
      save,
    ),
  );
}

const STATES = () => ({ active: t`active`, revoked: t`revoked`, expired: t`expired` });

async function grants(id, self) {
  const [list, offers] = await Promise.all([get(at`users/${id}/grants`), giveable()]);
  const kinds = { active: 'good', revoked: 'bad' };
  const revoke = async (offer) => {
    await call('DELETE', at`users/${id}/grants/${offer}`);
    await self.done(t`Revoked “${offer}”.`);
  };
  const rows = list.reverse().map(({ offerId, type, state, purchasedAt, expiry, revokedAt }) => [
    el('code.clip', offerId),
    type ?? quiet(t`not in the catalogue`),
    badge(STATES()[state] ?? state, kinds[state]),
    stamp(purchasedAt),
    stamp(revokedAt ?? expiry),
    state === 'active' &&
      action(t`Revoke`, () => revoke(offerId), {
        ask: t`Revoke the offer “${offerId}” from this user? Playback that needs it ends.`,
        label: t`Revoke ${offerId}`,
      }),
  ]);
  const give = async ({ offer, until }) => {
    const expiry = until && localTime(until);
    await call('PUT', at`users/${id}/grants/${offer}`, expiry ? { expiry } : {});
    await self.done(t`Granted “${offer}”.`);
  };
  return [
    table([{ head: t`Offer`, grow: 2 }, t`Type`, t`State`, t`Granted`, t`Ends`, ''], rows, t`No grants. All users have the default offers.`),
    form(
      t`Grant`,
      [
        offers.length
          ? choice(t`Offer`, 'offer', offers)
          : field(t`Offer`, 'offer', { required: true, placeholder: t`offer id` }),
        field(t`Ends at (${zoneName()}; default: as in the offer)`, 'until', { type: 'datetime-local' }),
      ],
      give,
    ),
  ];
}

async function devices(id, self) {
  const [list, streams, { deviceLimit: limit }] = await Promise.all([get(at`users/${id}/devices`), get(at`users/${id}/streams`), get(at`users/${id}`)]);
  const plays = new Map(streams.map((one) => [one.deviceId, one.title ?? one.livestreamName ?? one.assetId]));
  const remove = async (device) => {
    await call('DELETE', at`users/${id}/devices/${device}`);
    await self.done(t`Removed “${device}”.`);
  };
  const rows = list.map(({ deviceId, deviceModel, devicePlatform, deviceType, since, lastStart }) => [
    el('span.clip', { title: `${deviceId} · ${t`since`} ${new Date(since * 1000).toISOString().slice(0, 10)}` }, deviceModel, ' ', quiet(`${deviceType}, ${devicePlatform}`)),
    plays.has(deviceId) && el('span.clip', { title: plays.get(deviceId) }, badge(t`plays ${plays.get(deviceId)}`, 'good')),
    stamp(lastStart),
    mayChange() &&
      action(t`Remove`, () => remove(deviceId), {
        ask: t`Remove the device “${deviceId}”? Playback on it ends.`,
        label: t`Remove ${deviceId}`,
      }),
  ]);
  const full = limit !== undefined && list.length >= limit;
  return [
    el('p', limit === undefined ? t`${count(list.length)} devices; a tag of the user lifts the limit` : badge(t`${count(list.length)} of ${count(limit)}`, full ? 'bad' : ''), full && [' ', t`A new device is refused until one is removed.`]),
    table([{ head: t`Device`, grow: 2 }, { head: t`Now`, grow: 2 }, t`Last start`, ''], rows, t`No devices.`),
  ];
}

async function logins(id, self) {
  const list = await get(at`users/${id}/sessions`);
  const rows = list.map(({ sessionId, createdTimestamp, lastUsedTimestamp, expires, program, deviceId }) => [
    el('span.clip', { title: [sessionId, deviceId].filter(Boolean).join(' · ') }, program ?? quiet(t`unknown`)),
    stamp(createdTimestamp),
    stamp(lastUsedTimestamp),
    stamp(expires),
  ]);
  const out = async () => {
    await call('POST', at`users/${id}/logout`);
    await self.done(t`Logged out everywhere.`);
  };
  const link = async () => {
    await call('POST', at`users/${id}/reset-mail`);
    await self.done(t`Queued a password reset mail.`);
  };
  return [
    table([{ head: t`Program`, grow: 2 }, t`Created`, t`Last use`, t`Expires`], rows, t`No login sessions.`),
    el(
      'p.actions',
      action(t`Send password reset mail`, link),
      rows.length > 0 &&
        action(t`Log out everywhere`, out, {
          ask: t`Log this user out everywhere? They have to log in again on each device.`,
        }),
    ),
  ];
}

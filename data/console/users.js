// Users: search, account, offers, playback and login sessions.
import { at, call, get, query } from './api.js';
import { badge, choice, el, facts, field, link, quiet, table, when } from './dom.js';
import { action, form, panel } from './panel.js';
import { playing } from './sessions.js';
import { whyForm } from './why.js';

const PAGE = 50;

/** Form fields that identify a user, by e-mail and partner or by id; filled in with the user of `id`. */
export async function whom(id) {
  const [partners, user] = await Promise.all([get('partners'), id && get(at`users/${id}`)]);
  const options = partners.map(({ partnerId, name }) => [partnerId, name]);
  const attributes = { required: true, placeholder: 'e-mail or id', spellcheck: 'false', size: 28 };
  return [
    field('User', 'user', { ...attributes, value: user?.email ?? '' }),
    options.length > 1 && choice('Partner', 'partner', options, user?.partnerId),
  ];
}

/** Fetches the user that the values of these fields identify. */
export const find = ({ user, partner }) => get(at`users/${user}` + query({ partner }));

export function users({ rest: [id], search }) {
  return id ? one(id) : [panel('Find', finder), panel('All users', () => all(search.get('after')))];
}

const finder = async () => {
  const go = async (values) => {
    const { userId } = await find(values);
    location.hash = `#/users/${userId}`;
  };
  return form('Find', await whom(), go, { reads: true });
};

async function all(after) {
  const [list, partners] = await Promise.all([get(`users${query({ after, limit: PAGE })}`), get('partners')]);
  const names = new Map(partners.map(({ partnerId, name }) => [partnerId, name]));
  const rows = list.map((user) => [
    link(user.email, 'users', user.userId),
    user.name ?? quiet('–'),
    names.get(user.partnerId) ?? user.partnerId,
    user.country ?? quiet('–'),
    when(user.createdTimestamp),
    user.disabled ? badge('disabled', 'bad') : '',
  ]);
  const more = list.length === PAGE && el('a', { href: `#/users${query({ after: list.at(-1).userId })}` }, 'More');
  return [table(['E-mail', 'Name', 'Partner', 'Country', 'Created', ''], rows, 'No users.'), more && el('p', more)];
}

function one(id) {
  return [
    panel('Account', (self) => account(id, self)),
    panel('Entitlement check', () => whyForm({ known: id })),
    panel('Offers', (self) => grants(id, self)),
    panel('Playback sessions', (self) => playing(self, id)),
    panel('Login sessions', (self) => logins(id, self)),
  ];
}

async function account(id, self) {
  const user = await get(at`users/${id}`);
  const { email, parentalControl: parental } = user;
  /** Returns a handler that changes the user and reports `text`. */
  const change = (text, method, path, members) => async () => {
    await call(method, at`users/${id}` + path, members);
    await self.done(text);
  };
  return [
    facts([
      ['E-mail', el('strong', email)],
      ['Name', user.name],
      ['State', user.disabled ? badge('disabled', 'bad') : badge('active', 'good')],
      ['Country', user.country],
      ['Language', user.locale],
      ['Date of birth', user.birthDate],
      ['Created', when(user.createdTimestamp)],
      ['Tags', user.tags.length ? user.tags.map((tag) => badge(tag)) : undefined],
      ['Parental control', parental.enabled ? `PIN required from age ${parental.limit}` : 'off'],
      ['PIN', user.hasPin ? 'set' : 'none'],
      ['Id', el('code', user.userId)],
    ]),
    el('p.actions', [
      user.disabled
        ? action('Enable account', change('Account enabled.', 'PUT', '', { disabled: false }))
        : action('Disable account', change('Account disabled.', 'PUT', '', { disabled: true }), {
            ask: `Disable the account of ${email}? Its login and playback sessions end. You can enable it again.`,
          }),
      action('Send new PIN', change('Queued a mail with a new PIN.', 'PUT', '/pin', {}), {
        ask: `Send a new PIN to ${email}? The current PIN stops working.`,
      }),
      action('Remove all devices', change('Removed all devices.', 'DELETE', '/devices'), {
        ask: `Remove all devices of ${email}? Playback on them ends.`,
      }),
    ]),
  ];
}

async function grants(id, self) {
  const [list, offers] = await Promise.all([get(at`users/${id}/grants`), giveable()]);
  const kinds = { active: 'good', revoked: 'bad' };
  const revoke = async (offer) => {
    await call('DELETE', at`users/${id}/grants/${offer}`);
    await self.done(`Revoked “${offer}”.`);
  };
  const rows = list.reverse().map(({ offerId, type, state, purchasedAt, expiry, revokedAt }) => [
    el('code', offerId),
    type ?? quiet('not in the catalogue'),
    badge(state, kinds[state]),
    when(purchasedAt),
    when(revokedAt ?? expiry),
    state === 'active' &&
      action('Revoke', () => revoke(offerId), {
        ask: `Revoke the offer “${offerId}” from this user? Playback that needs it ends.`,
        label: `Revoke ${offerId}`,
      }),
  ]);
  const give = async ({ offer, until }) => {
    const expiry = until && Math.floor(new Date(until).getTime() / 1000);
    await call('PUT', at`users/${id}/grants/${offer}`, expiry ? { expiry } : {});
    await self.done(`Granted “${offer}”.`);
  };
  return [
    table(['Offer', 'Type', 'State', 'Granted', 'Ends', ''], rows, 'No grants. All users have the default offers.'),
    form(
      'Grant',
      [
        offers.length
          ? choice('Offer', 'offer', offers)
          : field('Offer', 'offer', { required: true, placeholder: 'offer id' }),
        field('Ends at (default: as in the offer)', 'until', { type: 'datetime-local' }),
      ],
      give,
    ),
  ];
}

/** The offers that can be granted; none if the role does not allow the catalogue, and the operator types the id. */
async function giveable() {
  try {
    const { offer } = await get('catalog?format=json');
    return offer.filter(({ type }) => type !== 'default').map(({ id }) => [id, id]);
  } catch (error) {
    if (error.status === 403) return [];
    throw error;
  }
}

async function logins(id, self) {
  const list = await get(at`users/${id}/sessions`);
  const rows = list.map(({ sessionId, createdTimestamp, expires }) => [
    el('code', sessionId),
    when(createdTimestamp),
    when(expires),
  ]);
  const out = async () => {
    await call('POST', at`users/${id}/logout`);
    await self.done('Logged out everywhere.');
  };
  const link = async () => {
    await call('POST', at`users/${id}/reset-mail`);
    await self.done('Queued a password reset mail.');
  };
  return [
    table(['Session', 'Created', 'Expires'], rows, 'No login sessions.'),
    el(
      'p.actions',
      action('Send password reset mail', link),
      rows.length > 0 &&
        action('Log out everywhere', out, {
          ask: 'Log this user out everywhere? They have to log in again on each device.',
        }),
    ),
  ];
}

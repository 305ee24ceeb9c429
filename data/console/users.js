// Users: found, shown, given offers, logged out, shut.
import { at, call, get, query } from './api.js';
import { badge, choice, el, facts, field, link, quiet, table, when } from './dom.js';
import { action, form, panel } from './panel.js';
import { playing } from './sessions.js';
import { whyForm } from './why.js';

const PAGE = 50;

/** The fields by which a user is named: by an address with its partner, or by an id. With an id they name that user. */
export async function whom(id) {
  const [partners, user] = await Promise.all([get('partners'), id && get(at`users/${id}`)]);
  const options = partners.map(({ partnerId, name }) => [partnerId, name]);
  const attributes = { required: true, placeholder: 'e-mail or id', spellcheck: 'false', size: 28 };
  return [
    field('User', 'user', { ...attributes, value: user?.email ?? '' }),
    options.length > 1 && choice('Partner', 'partner', options, user?.partnerId),
  ];
}

/** The user whom the values of these fields name. */
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
    user.disabled ? badge('shut', 'bad') : '',
  ]);
  const more = list.length === PAGE && el('a', { href: `#/users${query({ after: list.at(-1).userId })}` }, 'More');
  return [table(['E-mail', 'Name', 'Partner', 'Country', 'Since', ''], rows, 'No users.'), more && el('p', more)];
}

function one(id) {
  return [
    panel('Account', (self) => account(id, self)),
    panel('Why can this user play something, or not?', () => whyForm({ known: id })),
    panel('Offers', (self) => grants(id, self)),
    panel('Playing now', (self) => playing(self, id)),
    panel('Logged in', (self) => logins(id, self)),
  ];
}

async function account(id, self) {
  const user = await get(at`users/${id}`);
  const { email, parentalControl: parental } = user;
  /** Asks for a change below this user, and tells of it. */
  const change = (text, method, path, members) => async () => {
    await call(method, at`users/${id}` + path, members);
    await self.done(text);
  };
  return [
    facts([
      ['E-mail', el('strong', email)],
      ['Name', user.name],
      ['State', user.disabled ? badge('shut', 'bad') : badge('open', 'good')],
      ['Country', user.country],
      ['Language', user.locale],
      ['Born', user.birthDate],
      ['Since', when(user.createdTimestamp)],
      ['Tags', user.tags.length ? user.tags.map((tag) => badge(tag)) : undefined],
      ['Parental control', parental.enabled ? `PIN from ${parental.limit} on` : 'off'],
      ['PIN', user.hasPin ? 'set' : 'none'],
      ['Id', el('code', user.userId)],
    ]),
    el('p.actions', [
      user.disabled
        ? action('Open the account', change('The account is open.', 'PUT', '', { disabled: false }))
        : action('Shut the account', change('The account is shut.', 'PUT', '', { disabled: true }), {
            ask: `Shut the account of ${email}? Its logins end at once; nothing is deleted, and it can be opened again.`,
          }),
      action('Mail a new PIN', change('A new PIN is on its way.', 'PUT', '/pin', {}), {
        ask: `Mail ${email} a new PIN? The one they have is no longer taken.`,
      }),
      action('Forget the devices', change('No device is registered.', 'DELETE', '/devices'), {
        ask: `Forget all devices of ${email}? What plays on them ends.`,
      }),
    ]),
  ];
}

async function grants(id, self) {
  const [list, offers] = await Promise.all([get(at`users/${id}/grants`), giveable()]);
  const kinds = { active: 'good', revoked: 'bad' };
  const revoke = async (offer) => {
    await call('DELETE', at`users/${id}/grants/${offer}`);
    await self.done(`“${offer}” was taken back.`);
  };
  const rows = list.reverse().map(({ offerId, type, state, purchasedAt, expiry, revokedAt }) => [
    el('code', offerId),
    type ?? quiet('no longer offered'),
    badge(state, kinds[state]),
    when(purchasedAt),
    when(revokedAt ?? expiry),
    state === 'active' &&
      action('Revoke', () => revoke(offerId), {
        ask: `Take the offer “${offerId}” back from this user? What plays by it alone ends.`,
        label: `Revoke ${offerId}`,
      }),
  ]);
  const give = async ({ offer, until }) => {
    const expiry = until && Math.floor(new Date(until).getTime() / 1000);
    await call('PUT', at`users/${id}/grants/${offer}`, expiry ? { expiry } : {});
    await self.done(`“${offer}” was given.`);
  };
  return [
    table(['Offer', 'Kind', 'State', 'Since', 'Until', ''], rows, 'Nothing was given. Default offers are everybody’s.'),
    form(
      'Give',
      [
        offers.length
          ? choice('Offer', 'offer', offers)
          : field('Offer', 'offer', { required: true, placeholder: 'id of the offer' }),
        field('Until, if not as the offer says', 'until', { type: 'datetime-local' }),
      ],
      give,
    ),
  ];
}

/** The offers that can be given, to choose from, as far as the role lets one see the catalogue: without it their ids are typed. */
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
    await self.done('They are logged out everywhere.');
  };
  const link = async () => {
    await call('POST', at`users/${id}/reset-mail`);
    await self.done('A link to choose a password is on its way.');
  };
  return [
    table(['Session', 'Since', 'Until'], rows, 'Not logged in anywhere.'),
    el(
      'p.actions',
      action('Mail a link to choose a password', link),
      rows.length > 0 &&
        action('Log out everywhere', out, {
          ask: 'Log this user out everywhere? Each device has to log in again.',
        }),
    ),
  ];
}

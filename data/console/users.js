// The list of users: search, filters, bulk actions, export.
import { at, call, get, getPage, query } from './api.js';
import { absent, badge, choice, el, field, quiet, stamp } from './dom.js';
import { t } from './i18n.js';
import { list } from './list.js';
import { person } from './names.js';
import { mayChange, panel, form } from './panel.js';
import { one } from './user.js';

const EXPORT_PAGE = 1_000;
const OFFERED = 10; // users of a search

/** A select of the partners, if there are several: first `chosen`, else the one with the most users. */
function choosePartner(partners, chosen) {
  const options = partners.map(({ partnerId, name }) => [partnerId, name]);
  const largest = partners.toSorted((a, b) => b.users - a.users)[0];
  return options.length > 1 && choice(t`Partner`, 'partner', options, chosen ?? largest.partnerId);
}

/** Form fields that identify a user, by e-mail and partner or by id; filled in with the user of `id`. */
export async function whom(id) {
  const [partners, user] = await Promise.all([get('partners'), id && get(at`users/${id}`)]);
  const attributes = { required: true, placeholder: t`e-mail or id`, spellcheck: 'false', size: 28 };
  return [
    field(t`User`, 'user', { ...attributes, value: user?.email ?? '' }),
    choosePartner(partners, user?.partnerId),
  ];
}

/** Fetches the user that the values of these fields identify. */
export const find = ({ user, partner }) => get(at`users/${user}` + query({ partner }));

/**
 * The user that the values identify; `undefined` if nobody is found. Where several may be meant, `null`: they are
 * offered below the form `element`, and `choose` gets the chosen one.
 */
export async function identified(values, element, choose) {
  element.parentNode.querySelector('.found')?.remove();
  try {
    return await find(values);
  } catch (error) {
    if (error.code !== 'USER_NOT_FOUND') throw error;
  }
  const { user: search, partner } = values;
  const named = (of) => get(`users${query({ search, partner: of, sort: 'name', limit: OFFERED })}`);
  let some = await named(partner);
  // The form proposes a partner, which the operator may not have looked at.
  if (!some.length && partner) some = await named();
  if (!some.length) return undefined;
  const button = (one) => el('button.plain', { type: 'button', onclick: () => choose(one) }, one.email);
  const item = (one) => el('li', button(one), one.name && [' ', quiet(one.name)]);
  const note = el('p', { role: 'status' }, t`No user has this address or id. Choose one whose name or address contains “${search}”:`);
  element.after(el('div.found', note, el('ul', some.map(item))));
  return null;
}

/** The offers that can be granted; none if the role does not allow the catalogue, and the operator types the id. */
export async function giveable() {
  try {
    const { offer } = await get('catalog?format=json');
    return offer.filter(({ type }) => type !== 'default').map(({ id }) => [id, id]);
  } catch (error) {
    if (error.status === 403) return [];
    throw error;
  }
}

export function users({ rest: [id], search, head }) {
  if (id) return one(id, head);
  const place = panel('', async (self) => {
    const [partners, offers] = await Promise.all([get('partners'), mayChange() ? giveable() : []]);
    place.replaceWith(all(partners, offers, search));
    return [];
  });
  return [place, mayChange() && panel(t`Add user`, adder)];
}

function all(partners, offers, search) {
  const names = new Map(partners.map(({ partnerId, name }) => [partnerId, name]));
  const asked = ({ text, chosen, sort, descending }) => ({
    ...chosen,
    search: text,
    sort: sort && `${descending ? '-' : ''}${sort}`,
  });
  const load = ({ offset, limit, ...view }) => {
    // The server counts to 10,000; what lies behind is found by searching, and exported.
    if (offset > 10_000) throw new Error(t`Only the first 10,000 users can be shown; search for others`);
    return getPage(`users${query({ ...asked(view), offset, limit, count: true })}`);
  };
  const loadAll = async (view) => {
    const rows = [];
    for (let after; ; after = rows.at(-1).userId) {
      const page = await get(`users${query({ ...asked(view), sort: '', after, limit: EXPORT_PAGE })}`);
      rows.push(...page);
      if (page.length < EXPORT_PAGE) return rows;
    }
  };
  return list('', load, {
    search,
    loadAll,
    csv: 'users',
    sort: '-created',
    key: ({ userId }) => userId,
    searchLabel: t`Part of e-mail, name or id`,
    none: t`No users.`,
    opens: true,
    zoned: true,
    filters: [
      ...(partners.length > 1 ? [{ name: 'partner', label: t`Partner`, options: [...names] }] : []),
      {
        name: 'state',
        label: t`State`,
        options: [
          ['active', t`active`],
          ['disabled', t`disabled`],
        ],
      },
    ],
    columns: [
      { head: t`E-mail`, id: 'email', grow: 3, sorted: true, cell: person, csv: ({ email }) => email },
      { head: t`Name`, id: 'name', grow: 2, sorted: true, cell: ({ name }) => (name ? el('span.clip', { title: name }, name) : absent()), csv: ({ name }) => name },
      { head: t`Partner`, cell: ({ partnerId }) => names.get(partnerId) ?? partnerId, csv: ({ partnerId }) => names.get(partnerId) ?? partnerId },
      { head: t`Country`, cell: ({ country }) => country ?? absent(), csv: ({ country }) => country },
      {
        head: t`Created`,
        id: 'created',
        sorted: true,
        cell: ({ createdTimestamp }) => stamp(createdTimestamp),
        csv: ({ createdTimestamp }) => new Date(createdTimestamp * 1000).toISOString(),
      },
      {
        head: t`State`,
        cell: ({ disabled }) => (disabled ? badge(t`disabled`, 'bad') : badge(t`active`, 'good')),
        csv: ({ disabled }) => (disabled ? 'disabled' : 'active'),
      },
      { head: t`Id`, csv: ({ userId }) => userId },
    ],
    bulk: [
      {
        verb: t`Grant`,
        fields: () =>
          offers.length
            ? choice(t`Offer`, 'offer', offers)
            : field(t`Offer`, 'offer', { placeholder: t`offer id` }),
        ask: (number) => t`Grant the offer to ${number} users?`,
        work: ({ userId }, { offer }) => call('PUT', at`users/${userId}/grants/${offer}`, {}),
      },
      {
        verb: t`Log out`,
        danger: true,
        ask: (number) => t`Log ${number} users out everywhere? They have to log in again on each device.`,
        work: ({ userId }) => call('POST', at`users/${userId}/logout`),
      },
      {
        verb: t`Disable`,
        danger: true,
        ask: (number) => t`Disable ${number} accounts? Their login and playback sessions end. You can enable them again.`,
        work: ({ userId }) => call('PUT', at`users/${userId}`, { disabled: true }),
      },
      {
        verb: t`Enable`,
        work: ({ userId }) => call('PUT', at`users/${userId}`, { disabled: false }),
      },
    ],
  });
}

/** Adds a user, who chooses a password by the reset mail. */
async function adder(self) {
  const partners = await get('partners');
  const add = async ({ email, name, partner }, element) => {
    const place = element.closest('.panel');
    const { userId } = await call('POST', `users${query({ partner })}`, { email, ...(name && { name }) });
    await self.done(t`Added ${email}.`);
    // The operator may have gone to another page before the answer came.
    if (place.isConnected) location.hash = `#/users/${userId}`;
  };
  return form(
    t`Add`,
    [
      field(t`E-mail`, 'email', { type: 'email', required: true, size: 28 }),
      field(t`Name`, 'name'),
      choosePartner(partners),
    ],
    add,
  );
}

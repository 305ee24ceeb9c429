// Explains an entitlement decision: why a user may play an asset, or may not.
import { at, get, query } from './api.js';
import { badge, el, field, link, table } from './dom.js';
import { t } from './i18n.js';
import { form, panel } from './panel.js';
import { identified, whom } from './users.js';

/** `#/why`, or with a result `#/why/USER/ASSET?offset=…&country=…`. */
export function why({ rest: [user, asset], search, head }) {
  const more = { offset: search.get('offset') ?? '', country: search.get('country') ?? '' };
  return [
    panel(t`Check`, () => whyForm({ user, asset: asset ?? search.get('asset') ?? undefined, ...more })),
    ...(asset ? [panel(t`Result`, () => answer(user, asset, more, head))] : []),
  ];
}

/** The form with its previous values; without the user fields if the user's id is `known`. */
export async function whyForm({ known, user, asset = '', offset = '', country = '' }) {
  const named = known ? [] : await whom(user);
  const fields = [
    ...named,
    field(t`Asset`, 'asset', { required: true, value: asset, placeholder: t`livestream, broadcast or video`, size: 24 }),
    field(t`Offset (s)`, 'offset', { value: offset, type: 'number', min: -86_400, max: 0, placeholder: '0' }),
    field(t`Country`, 'country', { value: country, maxlength: 2, size: 6, placeholder: t`user’s` }),
  ];
  const ask = async (values, element) => {
    const open = ({ userId }) => show(userId, values);
    if (known) return show(known, values);
    const found = await identified(values, element, open);
    if (found === undefined) throw Object.assign(new Error(t`No user has this address, id or name`), { status: 0 });
    // The operator may have gone to another page before the answer came.
    if (found && element.isConnected) open(found);
  };
  const show = (userId, values) => {
    const more = query({ offset: values.offset, country: values.country.toUpperCase() });
    const hash = `#/why/${encodeURIComponent(userId)}/${encodeURIComponent(values.asset)}${more}`;
    if (hash === location.hash) dispatchEvent(new HashChangeEvent('hashchange'));
    else location.hash = hash;
  };
  return form(t`Check`, fields, ask, { reads: true });
}

/** The result of a step. A failed step is no error if access was granted: one offer of several is enough. */
function mark(check, passed, granted) {
  if (passed) return badge('✓', 'good');
  if (check === 'pin') return badge('PIN', 'warn');
  return granted ? badge('–') : badge('✗', 'bad');
}

async function answer(id, asset, more, head) {
  const [user, said] = await Promise.all([get(at`users/${id}`), get(at`users/${id}/why/${asset}` + query(more))]);
  const name = [said.title, said.livestreamName].filter(Boolean).join(', ') || asset;
  head(t`May ${user.email} play ${name}?`, { back: [t`Entitlement check`, '#/why'] });
  const { granted, code, reason, pinNeeded, steps } = said;
  const yes = pinNeeded ? [t`Granted, PIN required`, 'warn'] : [t`Granted`, 'good'];
  const [verdict, kind] = granted ? yes : [t`Denied`, 'bad'];
  const rows = steps.map(({ check, subject, finding, passed }) => [
    mark(check, passed, granted),
    check,
    subject ? el('code', subject) : '',
    finding,
  ]);
  return [
    el(`div.verdict.${kind}`, verdict, code && el('small', ` ${code}`)),
    reason && el('p', reason),
    el(
      'p',
      link(user.email, 'users', id),
      user.disabled && [' ', badge(t`disabled`, 'bad')],
      ' · ',
      el('code', asset),
      t`, evaluated now`,
    ),
    table([t`Result`, t`Check`, t`Subject`, t`Finding`], rows),
    el('p', el('a', { href: `#/requests${query({ user: id, asset })}` }, t`What the user was answered before`)),
  ];
}

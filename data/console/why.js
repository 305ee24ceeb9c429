// The support agent's first question: why may a user play something, or not?
import { at, get, query } from './api.js';
import { badge, el, field, link, table } from './dom.js';
import { form, panel } from './panel.js';
import { find, whom } from './users.js';

/** `#/why`, and with an answer `#/why/USER/ASSET?offset=…&country=…`. */
export function why({ rest: [user, asset], search }) {
  const more = { offset: search.get('offset') ?? '', country: search.get('country') ?? '' };
  return [
    panel('Ask', () => whyForm({ user, asset, ...more })),
    ...(asset ? [panel('Answer', () => answer(user, asset, more))] : []),
  ];
}

/** The question, with what it was before: of a user whose id is `known`, or of one who is to be named. */
export async function whyForm({ known, user, asset = '', offset = '', country = '' }) {
  const named = known ? [] : await whom(user);
  const fields = [
    ...named,
    field('Asset', 'asset', { required: true, value: asset, placeholder: 'livestream, broadcast or video', size: 24 }),
    field('Seconds back', 'offset', { value: offset, type: 'number', min: -86_400, max: 0, placeholder: '0' }),
    field('Country', 'country', { value: country, maxlength: 2, size: 6, placeholder: 'as is' }),
  ];
  const ask = async (values) => {
    const { userId } = known ? { userId: known } : await find(values);
    const more = query({ offset: values.offset, country: values.country.toUpperCase() });
    const hash = `#/why/${encodeURIComponent(userId)}/${encodeURIComponent(values.asset)}${more}`;
    if (hash === location.hash) dispatchEvent(new HashChangeEvent('hashchange'));
    else location.hash = hash;
  };
  return form('Why?', fields, ask, { reads: true });
}

/** What a step came to. Of several offers one is enough, and a PIN that is asked for shuts nobody out. */
function mark(check, passed, granted) {
  if (passed) return badge('✓', 'good');
  if (check === 'pin') return badge('PIN', 'warn');
  return granted ? badge('–') : badge('✗', 'bad');
}

async function answer(id, asset, more) {
  const [user, said] = await Promise.all([get(at`users/${id}`), get(at`users/${id}/why/${asset}` + query(more))]);
  const { granted, code, pinNeeded, steps } = said;
  const [verdict, kind] = granted ? (pinNeeded ? ['Yes, with the PIN', 'warn'] : ['Yes', 'good']) : ['No', 'bad'];
  const rows = steps.map(({ check, subject, finding, passed }) => [
    mark(check, passed, granted),
    check,
    subject ? el('code', subject) : '',
    finding,
  ]);
  return [
    el(`div.verdict.${kind}`, verdict, code && el('small', ` ${code}`)),
    el(
      'p',
      link(user.email, 'users', id),
      user.disabled && badge('shut', 'bad'),
      ' and ',
      el('code', asset),
      ', as it stands now.',
    ),
    table(['', 'Looked at', 'Of', 'Found'], rows),
  ];
}

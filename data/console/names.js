// Names in place of ids: channels with their logos, programmes and people. The ids are in the tooltips.
import { picture } from './api.js';
import { absent, el, link, quiet, svg } from './dom.js';

/** The initials of a channel. */
function initials(name) {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  return (words.length > 1 ? words[0][0] + words[1][0] : (words[0] ?? '?').slice(0, 2)).toUpperCase();
}

/** The logo of a channel: its initials, and its picture once the server has one. */
export function logo(id, name) {
  const drawn = svg(
    'svg',
    { class: 'logo', viewBox: '0 0 32 32', 'aria-hidden': 'true' },
    svg('rect', { width: 32, height: 32, rx: 7 }),
    svg('text', { x: 16, y: 21 }, initials(name)),
  );
  if (id) load(id, drawn, 'img.logo');
  return drawn;
}

/** Puts the picture of an asset in the place of an element, if there is one. */
async function load(id, element, name) {
  const address = await picture(id).catch(() => null);
  if (address) element.replaceWith(el(name, { src: address, alt: '' }));
}

/** The picture of a broadcast or a video; nothing if it has none. */
export function still(id) {
  const place = el('span', { hidden: true });
  load(id, place, 'img.still');
  return place;
}

/** What plays, or what a request was about: programme and channel, or the video. */
export function watched({ asset, assetId = asset, broadcastId, livestreamId, livestreamName, title }) {
  if (!assetId) return absent();
  const ids = [...new Set([assetId, broadcastId].filter(Boolean))].join(' · ');
  const [first, second] = [title, livestreamName].filter(Boolean);
  return el(
    'span.named',
    { title: ids },
    livestreamName && logo(livestreamId, livestreamName),
    el('span.clip', first ?? assetId, second && [' ', quiet(second)]),
  );
}

/** The same as one text, for searches, sorting and files. */
export const watchedText = ({ asset, assetId = asset, livestreamName, title }) =>
  [title, livestreamName].filter(Boolean).join(', ') || assetId;

/** A user, by e-mail address; by id if the user was erased since. */
export const person = ({ email, userId, user = userId }) =>
  user ? el('span.clip', { title: [email, user].filter(Boolean).join(' · ') }, link(email ?? user, 'users', user)) : absent();

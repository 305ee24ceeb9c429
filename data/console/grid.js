// The grid of the programme guide. Places are set through the object model: the page's policy allows no inline styles.
import { el } from './dom.js';
import { clockTime, t } from './i18n.js';
import { logo } from './names.js';

const HOUR = 3_600;
// Pixels of an hour: as many as the shorter programmes need for their titles, within limits.
const HOUR_WIDTHS = [220, 480];
const TITLE_WIDTH = 120;
const LEAD = 0.25; // of the width, shown before the present
const NARROW = 44; // pixels; a shorter programme shows no text

let hourWidth = HOUR_WIDTHS[0];
const pixels = (seconds) => (seconds / HOUR) * hourWidth;

/** The width of an hour at which the title of a programme of the shortest quarter can be read. */
function widthFor(lists) {
  const lengths = [...lists.values()].flat().map(({ start, stop }) => stop - start);
  const short = lengths.sort((a, b) => a - b)[Math.floor(lengths.length / 4)] ?? HOUR;
  const [least, most] = HOUR_WIDTHS;
  return Math.min(most, Math.max(least, (TITLE_WIDTH / Math.max(1, short)) * HOUR));
}

/** Places an element between two times. */
function place(element, from, to, origin) {
  element.style.insetInlineStart = `${pixels(from - origin)}px`;
  element.style.width = `${Math.max(2, pixels(to - from) - 2)}px`;
  return element;
}

function programme(one, { from, to, now, content }) {
  const start = Math.max(from, one.start);
  const stop = Math.min(to, one.stop);
  const time = `${clockTime(one.start)}–${clockTime(one.stop)}`;
  const notes = [!one.liveAvailable && t`no live rights`, !one.catchupInterval && t`no catch-up`].filter(Boolean);
  const is = one.stop <= now ? 'past' : one.start <= now ? 'now' : 'later';
  // Agents may not read rights; they check the entitlement of a user.
  const href = content
    ? `#/broadcast/${encodeURIComponent(one.id)}`
    : `#/why?asset=${encodeURIComponent(one.id)}`;
  const text = [one.title, time, ...notes].join(', ');
  const wide = pixels(stop - start) >= NARROW;
  return place(
    el(
      `a.programme.${is}${one.liveAvailable ? '' : '.barred'}`,
      { href, title: text, 'aria-label': wide ? undefined : text },
      wide && [el('span.title', one.title), ' ', el('span.time', [time, ...notes].join(' · '))],
    ),
    start,
    stop,
    from,
  );
}

/** `lists` has the broadcasts by livestream. */
export function grid(options) {
  const { channels, lists, from, to, now } = options;
  hourWidth = widthFor(lists);
  const width = `${pixels(to - from)}px`;
  const hours = Array.from({ length: Math.round((to - from) / HOUR) }, (_, i) => from + i * HOUR);
  const ruler = el(
    'div.track',
    { 'aria-hidden': 'true' },
    // The time at the present covers the one beside it.
    hours.map((at) => place(el('span.hour', Math.abs(at - now) > HOUR / 6 && el('span', clockTime(at))), at, at + HOUR, from)),
  );
  ruler.style.width = width;
  const sparse = []; // rows that say so where they have no programme in view
  const rows = channels.map(({ id, name, picture }) => {
    const list = lists.get(id) ?? [];
    const track = el(
      'ul.track',
      { 'aria-label': name },
      list.length ? el('li.none', { hidden: true }, t`nothing at this time`) : el('li.none', t`No broadcasts on this day.`),
      list.map((one) => el('li', programme(one, options))),
    );
    if (list.length) sparse.push([track.firstChild, list]);
    track.style.width = width;
    const head = el('a.channel', { href: `#/schedule/${encodeURIComponent(id)}` }, logo(picture && id, name), el('span', name));
    return el('div.row', head, track);
  });
  const isToday = from <= now && now < to;
  const line = isToday && el('div.now-line', { 'aria-hidden': 'true' });
  if (line) {
    line.style.insetInlineStart = `calc(var(--channel) + ${pixels(now - from)}px)`;
    const time = el('span.now-time', clockTime(now));
    time.style.insetInlineStart = `${pixels(now - from)}px`;
    ruler.append(time);
  }
  const body = el('div.grid-body', el('div.row.ruler', el('div.channel', { 'aria-hidden': 'true' }), ruler), rows, line);
  const box = el('div.grid', { tabindex: '0', role: 'region', 'aria-label': t`Programme guide` }, body);
  const scale = hourWidth;
  const present = pixels(now - from);
  const morning = pixels(6 * HOUR);
  const space = () => box.clientWidth - body.querySelector('.channel').offsetWidth;
  const check = () => {
    const room = space();
    const [first, last] = [box.scrollLeft, box.scrollLeft + room].map((x) => from + (x / scale) * HOUR);
    for (const [note, list] of sparse) note.hidden = list.some(({ start, stop }) => stop > first && start < last);
  };
  box.addEventListener('scroll', check, { passive: true });
  // Once it has a size.
  requestAnimationFrame(() => {
    box.scrollLeft = isToday ? Math.max(0, present - space() * LEAD) : morning;
    check();
  });
  return box;
}

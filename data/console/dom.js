// Element construction. Only this module creates elements, and it inserts content as text: an e-mail address or a title
// is never parsed as markup.
import { briefTime, clockSeconds, clockTime, dateTime, exactTime, fullTime, isoDay, longTime, number, t, zoneShort } from './i18n.js';

const isAttributes = (value) =>
  value !== null && typeof value === 'object' && !(value instanceof Node) && !Array.isArray(value);

/**
 * el('p.quiet', { title: 'x', onclick: f }, 'text', node, [more]) creates an element. Class and attributes are
 * optional; attributes and children that are `false`, `null` or `undefined` are skipped.
 */
export function el(name, ...rest) {
  const [tag, ...classes] = name.split('.');
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(' ');
  if (isAttributes(rest[0])) set(element, rest.shift());
  fill(element, rest);
  return element;
}

/** Creates an SVG element. */
export function svg(name, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  set(element, attributes);
  fill(element, children);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
}

function fill(element, children) {
  const there = children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false);
  element.append(...there.map((child) => (child instanceof Node ? child : String(child))));
}

export const link = (text, ...segments) => el('a', { href: `#/${segments.map(encodeURIComponent).join('/')}` }, text);

export const badge = (text, kind = '') => el(`span.badge${kind && `.${kind}`}`, text);

export const quiet = (...text) => el('span.quiet', ...text);

/** Marks the places in a translated sentence at which `phrase` puts nodes. */
export const [A, B, C] = ['\u0001', '\u0002', '\u0003'];

/** A translated sentence with nodes in the places of its marks. */
export const phrase = (text, ...nodes) =>
  text.split(/([\u0001-\u0003])/).map((piece) => (/^[\u0001-\u0003]$/.test(piece) ? nodes[piece.charCodeAt(0) - 1] : piece));

/** A dash for what is not there. Cards of small screens omit it. */
export const absent = () => el('span.quiet.absent', '–');

/** A text with all of it as tooltip: in a column that grows it is cut at the end of its room. Small screens show all of it. */
export const clipped = (text, ...nodes) => el('span.clip', { title: text }, nodes.length ? nodes : text);

/** The age from which a broadcast or a video may be watched; `undefined` where nobody rated it. */
export const age = (years) => (years === undefined ? quiet(t`not rated`) : years === 0 ? t`all ages` : `${years}+`);

export const yes = (value, good = t`yes`, bad = t`no`) => (value ? badge(good, 'good') : badge(bad, 'bad'));

// -- Number and time formats

function moment(seconds, text) {
  const iso = new Date(seconds * 1000).toISOString();
  return el('time', { datetime: iso, title: `${iso.slice(0, 19).replace('T', ' ')} UTC` }, text);
}

/** A time in the chosen zone, which it names, with UTC as tooltip; a dash if there is none. */
export const when = (seconds) =>
  seconds === undefined || seconds === null ? absent() : moment(seconds, longTime(seconds));

/** Date and time to the second in the chosen zone, for records. */
export const full = (seconds) => moment(seconds, fullTime(seconds));

/** Time to the second in the chosen zone, with the day if it is another, for what happens often. */
export const exact = (seconds) => moment(seconds, exactTime(seconds));

/** Times without the zone, which a list names once: as short as they can be, and with their date. */
export const brief = (seconds) => (seconds === undefined || seconds === null ? absent() : moment(seconds, briefTime(seconds)));
export const stamp = (seconds) => (seconds === undefined || seconds === null ? absent() : moment(seconds, dateTime(seconds)));

/** The zone of the times on a page or in a list. */
export const zoneNote = () => quiet(t`times in ${zoneShort(Date.now() / 1000)}`);

/** The time of day only. A heading near it names the zone. */
export const clock = (seconds) => moment(seconds, clockTime(seconds));
export const second = (seconds) => moment(seconds, clockSeconds(seconds));

/** Two times in the chosen zone, which is named last; the second has a date if it is another. */
export function period(from, to) {
  const end = isoDay(from) === isoDay(to) ? clock(to) : moment(to, dateTime(to));
  const [first, last] = [zoneShort(from), zoneShort(to)];
  return [moment(from, dateTime(from)), first === last ? ' – ' : ` ${first} – `, end, ` ${last}`];
}

/** 3725 -> "1 h 2 min", or with one unit "1 h". */
export function span(seconds, most = 2) {
  const units = [
    [t`d`, 86_400],
    ['h', 3_600],
    ['min', 60],
    ['s', 1],
  ];
  let left = Math.max(0, Math.round(seconds));
  const parts = units.map(([unit, size]) => {
    const whole = Math.floor(left / size);
    left -= whole * size;
    return whole ? `${whole} ${unit}` : '';
  });
  const first = parts.findIndex(Boolean);
  return first < 0
    ? '0 s'
    : parts
        .slice(first, first + most)
        .filter(Boolean)
        .join(' ');
}

export const count = (value) => number(value);

/** 41778020352 -> "41.8 GB". */
export function bytes(value) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, value)) / 3));
  return `${number(value / 1000 ** power, { maximumFractionDigits: 1 })} ${units[power]}`;
}

// -- Tables and lists

/**
 * A table. Each row is a list of cells; `none` replaces the table if there are no rows. A column is its head, or
 * { head, sort, sorted, grow, kind }: `sort` is the button in its head, `grow` its part of the room that others leave,
 * `kind` a class of its cells. With `opens`, a click anywhere on a row follows its first link. A `compact` table needs no
 * cards on small screens.
 */
export function table(columns, rows, none = t`No entries.`, { compact, opens } = {}) {
  if (rows.length === 0) return el('p.quiet', none);
  const all = columns.map((one) => (typeof one === 'object' ? one : { head: one }));
  const name = ({ grow, kind }) => [grow && `grow g${grow}`, kind].filter(Boolean).join(' ') || undefined;
  const title = (one) =>
    one.head || one.sort
      ? el('th', { scope: 'col', class: name(one), 'aria-sort': one.sorted }, one.sort ?? one.head)
      : el('td', { class: name(one) });
  // Small screens show each row as a card; `data-head` labels its cells there.
  const row = (cells) =>
    el(
      'tr',
      cells.map((cell, i) => el('td', { class: name(all[i]), 'data-head': all[i].head ?? '' }, el('div', cell))),
    );
  const body = el('tbody', rows.map(row));
  if (opens) body.addEventListener('click', follow);
  const kinds = [!compact && 'cards', all.some(({ grow }) => grow) && 'sized', opens && 'opens'].filter(Boolean);
  const place = el('div.scroll', el('table', { class: kinds.join(' ') || undefined }, el('thead', el('tr', all.map(title))), body));
  // What scrolls must be reached by the keyboard. It has a size once it is drawn.
  requestAnimationFrame(() => place.scrollWidth > place.clientWidth && set(place, { tabindex: '0', role: 'group', 'aria-label': t`Table` }));
  return place;
}

/** Follows the first link of the clicked row, unless the click was for something else in it or marked a text. */
function follow({ target }) {
  const marked = !getSelection().isCollapsed;
  if (marked || target.closest('a, button, input, label, select, summary, details')) return;
  target.closest('tr').querySelector('a')?.click();
}

/** What stands in the place of contents that do not exist (yet), with what to do about it. */
export const empty = (text, ...more) => el('div.empty', el('p', text), ...more);

/** A description list of [['Name', value], …]; `undefined` values are skipped. */
export const facts = (pairs) =>
  el(
    'dl.facts',
    pairs.filter(([, value]) => value !== undefined).map(([name, value]) => el('div', el('dt', name), el('dd', value))),
  );

// -- Forms

let fields = 0;

/** A labelled input; `name` is the key of its value in the submitted form. */
export function field(label, name, attributes = {}) {
  const id = `field-${(fields += 1)}`;
  return el(
    'div.field',
    el('label', { for: id }, label),
    el('input', { id, name, autocomplete: 'off', ...attributes }),
  );
}

/** A labelled select of [value, text] options; `value` is selected initially. */
export function choice(label, name, options, value) {
  const id = `field-${(fields += 1)}`;
  const option = ([each, text]) => el('option', { value: each, selected: String(each) === String(value) }, text);
  return el('div.field', el('label', { for: id }, label), el('select', { id, name }, options.map(option)));
}

/** A labelled check box. */
export function check(label, name, checked) {
  const id = `field-${(fields += 1)}`;
  return el('div.field.check', el('input', { id, name, type: 'checkbox', checked }), el('label', { for: id }, label));
}

const AREA_ROWS = 24; // at most; a longer text scrolls

/** A labelled text area, as tall as its text. */
export function area(label, name, text, attributes = {}) {
  const id = `field-${(fields += 1)}`;
  const rows = Math.min(AREA_ROWS, Math.max(8, text.split('\n').length));
  const input = el('textarea', { id, name, spellcheck: 'false', rows, ...attributes }, text);
  return el('div.field.wide', el('label', { for: id }, label), input);
}

/** Lets the browser save text as a file. */
export function save(name, media, text) {
  const address = URL.createObjectURL(new Blob([text], { type: media }));
  el('a', { href: address, download: name }).click();
  // The download has started by then.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

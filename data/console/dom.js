// Elements. They are made here and nowhere else, and whatever is shown goes in as text: an e-mail address or a title
// is never read as markup.

const isAttributes = (value) =>
  value !== null && typeof value === 'object' && !(value instanceof Node) && !Array.isArray(value);

/**
 * el('p.quiet', { title: 'x', onclick: f }, 'text', node, [more]): a class may follow the name, attributes may be left
 * out; `false`, `null` and `undefined` are no attributes and no children.
 */
export function el(name, ...rest) {
  const [tag, ...classes] = name.split('.');
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(' ');
  if (isAttributes(rest[0])) set(element, rest.shift());
  fill(element, rest);
  return element;
}

/** The same for a part of a drawing. */
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

export const yes = (value, good = 'yes', bad = 'no') => (value ? badge(good, 'good') : badge(bad, 'bad'));

// -- Figures

const SHORT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });

function moment(seconds, text) {
  const iso = new Date(seconds * 1000).toISOString();
  return el('time', { datetime: iso, title: `${iso.slice(0, 19).replace('T', ' ')} UTC` }, text);
}

/** A time in the zone of who looks, with UTC beside it on hover; a dash if there is none. */
export const when = (seconds) =>
  seconds === undefined || seconds === null ? quiet('–') : moment(seconds, SHORT.format(seconds * 1000));

/** The same without the day. */
export const clock = (seconds) => moment(seconds, CLOCK.format(seconds * 1000));

/** 3725 -> "1 h 2 min". */
export function span(seconds) {
  const units = [
    ['d', 86_400],
    ['h', 3_600],
    ['min', 60],
    ['s', 1],
  ];
  let left = Math.max(0, Math.round(seconds));
  const parts = units.map(([unit, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return count ? `${count} ${unit}` : '';
  });
  const first = parts.findIndex(Boolean);
  return first < 0
    ? '0 s'
    : parts
        .slice(first, first + 2)
        .filter(Boolean)
        .join(' ');
}

export const count = (number) => Number(number).toLocaleString();

/** 41778020352 -> "41.8 GB". */
export function bytes(number) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, number)) / 3));
  return `${(number / 1000 ** power).toLocaleString(undefined, { maximumFractionDigits: 1 })} ${units[power]}`;
}

// -- Shapes

/** A table of rows that are lists of cells; `none` is said if there are no rows. */
export function table(heads, rows, none = 'Nothing here.') {
  if (rows.length === 0) return el('p.quiet', none);
  const head = el(
    'tr',
    heads.map((text) => el('th', { scope: 'col' }, text)),
  );
  // A phone shows a row as a card, and there the cells name themselves.
  const row = (cells) =>
    el(
      'tr',
      cells.map((cell, i) => el('td', { 'data-head': heads[i] }, el('div', cell))),
    );
  return el('div.scroll', el('table', el('thead', head), el('tbody', rows.map(row))));
}

/** Names with what they are: [['Name', value], …], without those that are `undefined`. */
export const facts = (pairs) =>
  el(
    'dl.facts',
    pairs.filter(([, value]) => value !== undefined).map(([name, value]) => el('div', el('dt', name), el('dd', value))),
  );

// -- Forms

let fields = 0;

/** A labelled input; its name is by which `submit` tells its value. */
export function field(label, name, attributes = {}) {
  const id = `field-${(fields += 1)}`;
  return el(
    'div.field',
    el('label', { for: id }, label),
    el('input', { id, name, autocomplete: 'off', ...attributes }),
  );
}

/** A labelled choice of [value, text], the chosen one first said by `value`. */
export function choice(label, name, options, value) {
  const id = `field-${(fields += 1)}`;
  const option = ([each, text]) => el('option', { value: each, selected: String(each) === String(value) }, text);
  return el('div.field', el('label', { for: id }, label), el('select', { id, name }, options.map(option)));
}

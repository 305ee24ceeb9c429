// Parts of catalogue entries that are more than a value: lists, windows, choices of several. Each is
// { element, read() }; what is empty reads as `undefined`, so that the entry omits it.
import { choice, el, field } from './dom.js';
import { finder, isoTime, localTime, t, zoneName } from './i18n.js';

const PROTOCOLS = ['dash', 'dashs', 'hls', 'hls-audio', 'sstr', 'sstrs'];
const IMAGE_TYPES = () => [
  ['sixteen-nine', t`wide (16:9)`],
  ['square', t`square`],
  ['three-four', t`upright (3:4)`],
];
const MANY = 12; // choices, from which on there is a filter

const input = (label, attributes) => el('input', { 'aria-label': label, autocomplete: 'off', spellcheck: 'false', ...attributes });
const select = (label, options, value) =>
  el('select', { 'aria-label': label }, options.map(([each, text]) => el('option', { value: each, selected: each === value }, text)));

/** Repeated entries, each of inputs; `draw(value)` returns the inputs, `read(inputs, value)` the value again. */
function repeated(title, values, adds, { draw, read, blank }) {
  const rows = new Map();
  const list = el('div');
  const add = (value) => {
    const inputs = draw(value);
    const remove = () => {
      rows.delete(row);
      row.remove();
    };
    const row = el('div.entry', inputs, el('button', { type: 'button', 'aria-label': t`Remove from ${title}`, onclick: remove }, '×'));
    rows.set(row, () => read(inputs, value));
    list.append(row);
    return inputs;
  };
  values.forEach(add);
  const more = el('button.small', { type: 'button', onclick: () => add(blank())[0].focus() }, adds);
  return { element: el('fieldset', el('legend', title), list, more), read: () => [...rows.values()].map((one) => one()) };
}

/** The addresses of a playlist by protocol. */
export function playlists(value = {}) {
  const protocols = PROTOCOLS.map((one) => [one, one]);
  const part = repeated(t`Playlists`, Object.entries(value), t`Add playlist`, {
    draw: ([protocol, address]) => [select(t`Protocol`, protocols, protocol), input(t`Address`, { value: address, placeholder: 'https://…/manifest.mpd', required: true })],
    read: ([protocol, address]) => [protocol.value, address.value.trim()],
    blank: () => [PROTOCOLS.find((one) => !part.read().some(([used]) => used === one)) ?? 'dash', ''],
  });
  const read = () => {
    const all = part.read();
    return all.length ? Object.fromEntries(all) : undefined;
  };
  return { element: part.element, read };
}

/** Pictures, of which one is the default. */
export function images(value = []) {
  const part = repeated(t`Pictures`, value, t`Add picture`, {
    draw: ({ type, filename, default: is }) => [
      select(t`Shape`, IMAGE_TYPES(), type),
      input(t`Address`, { value: filename ?? '', placeholder: 'https://…/logo.png', required: true }),
      el('label', input(undefined, { type: 'checkbox', checked: is }), ' ', t`default`),
    ],
    read: ([type, filename, label], before) => {
      const { default: was, ...others } = before;
      const isDefault = label.querySelector('input').checked;
      return { ...others, type: type.value, filename: filename.value.trim(), ...((isDefault || was !== undefined) && { default: isDefault }) };
    },
    blank: () => ({}),
  });
  const read = () => {
    const all = part.read();
    return all.length ? all : undefined;
  };
  return { element: part.element, read };
}

/** Choices of several [value, text]; none of them reads as an empty list. */
export function picks(title, options, chosen = []) {
  const boxes = options.map(([value, text]) => {
    const box = el('input', { type: 'checkbox', value, checked: chosen.includes(value) });
    return { box, text, label: el('label', { title: value }, box, el('span.clip', text)) };
  });
  // What was chosen and is gone meanwhile stays chosen, and the server says what is wrong with it.
  const gone = chosen.filter((one) => !options.some(([value]) => value === one));
  const filter = input(t`Filter ${title}`, { type: 'search', placeholder: t`Filter` });
  filter.addEventListener('input', () => {
    const fits = finder(filter.value);
    for (const { box, text, label } of boxes) label.hidden = !box.checked && !fits([box.value, text]);
  });
  const element = el('fieldset', el('legend', title), options.length > MANY && filter, el('div.picks', { tabindex: options.length > MANY ? '0' : undefined, role: 'group', 'aria-label': title }, boxes.map(({ label }) => label)));
  const read = () => [...gone, ...boxes.filter(({ box }) => box.checked).map(({ box }) => box.value)];
  return { element, read };
}

/** A period between two times, either of which may be open. */
export function interval(title, value = {}) {
  const shown = (text) => (text ? isoTime(Date.parse(text) / 1000) : '');
  const time = (label, text) => field(label, '', { type: 'datetime-local', value: shown(text) });
  const ends = [time(t`From (${zoneName()})`, value.from), time(t`Until`, value.to)];
  const iso = (element, before) => {
    const { value: text } = element.querySelector('input');
    if (text === shown(before)) return before;
    return text ? new Date(localTime(text.slice(0, 16)) * 1000).toISOString().replace('.000Z', 'Z') : undefined;
  };
  const read = () => {
    const [from, to] = [iso(ends[0], value.from), iso(ends[1], value.to)];
    return from || to ? { ...(from && { from }), ...(to && { to }) } : undefined;
  };
  return { element: el('fieldset', el('legend', title), el('div.line', ends)), read };
}

/** What an offer contains: everything, or chosen livestreams and videos. */
export function pack(value, catalogue) {
  const named = (list = [], name) => list.map((one) => [one.id, one[name] ?? one.id]);
  const isAll = typeof value === 'string';
  const kind = choice(t`Contents`, '', [['all', t`everything`], ['chosen', t`chosen livestreams and videos`]], isAll ? 'all' : 'chosen');
  const lists = {
    livestreams: picks(t`Livestreams`, named(catalogue.livestream, 'name'), isAll ? [] : value?.livestreams),
    assets: picks(t`Videos on demand`, named(catalogue.asset, 'title'), isAll ? [] : value?.assets),
  };
  const place = el('div', Object.values(lists).map(({ element }) => element));
  const chooser = kind.querySelector('select');
  const show = () => (place.hidden = chooser.value === 'all');
  chooser.addEventListener('change', show);
  show();
  const read = () => {
    if (chooser.value === 'all') return 'all';
    const chosen = Object.entries(lists).map(([name, { read: of }]) => [name, of()]);
    return Object.fromEntries(chosen.filter(([, ids]) => ids.length));
  };
  return { element: el('fieldset', el('legend', t`Contents of the offer`), kind, place), read };
}

const EXTENDED = () => [
  ['pause', t`Pause`],
  ['rewind', t`Rewind`],
  ['fastForward', t`Fast forward`],
];

/** What a viewer may do with a running programme. `open` lets each be left as it is. */
export function extendedRights(value = {}, open) {
  const states = [['', t`unchanged`], ['true', t`yes`], ['false', t`no`]].slice(open ? 0 : 1);
  const controls = EXTENDED().map(([name, text]) => [name, choice(text, '', states, value[name] === undefined ? (open ? '' : 'false') : String(value[name]))]);
  const read = () => {
    const all = controls.map(([name, element]) => [name, element.querySelector('select').value]);
    const there = all.filter(([, state]) => state !== '').map(([name, state]) => [name, state === 'true']);
    const isDefault = !open && Object.keys(value).length === 0 && there.every(([, state]) => !state);
    return there.length && !isDefault ? Object.fromEntries(there) : undefined;
  };
  return { element: el('fieldset', el('legend', t`During a programme`), el('div.line', controls.map(([, element]) => element))), read };
}

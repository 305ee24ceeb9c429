// The programme guide as a grid: channels below one another, a day from left to right, with a line at the present.
import { at, get, query } from './api.js';
import { badge, clock, el, field, link, quiet, table } from './dom.js';
import { clockTime, dayName, finder, isoDay, localTime, shiftDay, t, zoneName, zoneShort } from './i18n.js';
import { grid } from './grid.js';
import { list } from './list.js';
import { logo } from './names.js';
import { folded, form, panel, subject } from './panel.js';

const EVERY = 60; // seconds
const CHANNELS = 25; // of a page of the grid
const IDS_MAX = 200; // livestreams that the API takes at a time
const LIST_LENGTH = 6000; // characters of them: the target of a request has at most 8 KiB

/** `#/schedule?day=…&page=…&q=…&find=…`, or one livestream as a list: `#/schedule/ID?day=…`. */
export function schedule({ rest: [livestream], search, about, head }) {
  const content = about.role !== 'agent';
  if (livestream) return one(livestream, search.get('day'), about.role, head);
  const view = {
    day: search.get('day') ?? '',
    page: Math.max(1, Number(search.get('page')) || 1),
    channel: search.get('channel') ?? '',
    find: search.get('find') ?? '',
  };
  const controls = panel('', () => tools(view));
  if (view.find) return [controls, found(view, content, search)];
  return [controls, panel('', () => guide(view, content), { every: EVERY })];
}

const address = (view, change) => {
  const { page, ...rest } = { ...view, ...change };
  return `#/schedule${query({ ...rest, page: page > 1 ? page : '' })}`;
};

async function tools(view) {
  const { now } = await get('clock');
  const shown = view.day || isoDay(now);
  const go = (change) => (location.hash = address(view, { page: 1, ...change }));
  return el('div.line', [
    days(shown, (day) => address(view, { day, find: '' })),
    folded(t`Find programme`, el('div.pair', [
      form(
        t`Find programme`,
        [field(t`Programme title`, 'find', { type: 'search', value: view.find, size: 12 })],
        ({ find }) => go({ find }),
        { reads: true, plain: true },
      ),
      form(
        t`Filter channels`,
        [field(t`Channel name or id`, 'channel', { type: 'search', value: view.channel, size: 12 })],
        ({ channel }) => go({ channel, find: '' }),
        { reads: true, plain: true },
      ),
    ])),
  ]);
}

/** The choice of a day; `href(day)` is the address of one, without a day that of today. */
function days(shown, href) {
  const picker = field(t`Day`, 'day', { type: 'date', value: shown });
  picker.querySelector('input').addEventListener('change', ({ target }) => target.value && (location.hash = href(target.value)));
  const to = (text, name, day) => el('a.button', { href: href(day), 'aria-label': name }, text);
  return el('div.line', [
    el('p.days', to('←', t`Previous day`, shiftDay(shown, -1)), to(t`Today`, t`Today`, ''), to('→', t`Next day`, shiftDay(shown, 1))),
    picker,
  ]);
}

/** Ids and names of the livestreams; ids alone for a role that may not see the catalogue. */
async function channels(wanted) {
  let all;
  try {
    const { livestream } = await get('catalog?format=json');
    all = livestream.map(({ id, name, images }) => ({ id, name: name ?? id, picture: images?.length > 0 }));
  } catch (error) {
    if (error.status !== 403) throw error;
    all = Object.keys(await get('schedule/live')).map((id) => ({ id, name: id }));
  }
  const fits = finder(wanted);
  const found = all.filter(({ id, name }) => fits([id, name]));
  return found.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
}

/** The ids in lists that fit into one request each. */
function lists(ids) {
  const parts = [];
  let room = 0;
  for (const id of ids) {
    const length = encodeURIComponent(id).length + 3; // with its comma
    if (room < length || parts.at(-1).length === IDS_MAX) {
      parts.push([]);
      room = LIST_LENGTH;
    }
    parts.at(-1).push(id);
    room -= length;
  }
  return parts;
}

/** The broadcasts of livestreams in a period. A TV day has the zone of its livestream: the neighbours belong to it. */
async function broadcasts(ids, from, to) {
  if (!ids.length) return new Map();
  const first = new Date(from * 1000).toISOString().slice(0, 10);
  const last = new Date(to * 1000).toISOString().slice(0, 10);
  const days = [];
  for (let date = shiftDay(first, -1); date <= last; date = shiftDay(date, 1)) days.push(date);
  const parts = lists(ids);
  const asked = days.flatMap((date) => parts.map((part) => [date, part.join(',')]));
  const all = await Promise.all(
    asked.map(([date, livestreams]) => get(at`schedule/day/${date}` + query({ livestreams }))),
  );
  const within = new Map(ids.map((id) => [id, new Map()]));
  for (const one of all) {
    for (const [id, list] of Object.entries(one)) {
      for (const item of list) if (item.stop > from && item.start < to) within.get(id)?.set(item.id, item);
    }
  }
  return new Map([...within].map(([id, items]) => [id, [...items.values()].sort((a, b) => a.start - b.start)]));
}

/** The period of the shown day in the chosen zone. */
function period(view, now) {
  const date = view.day || isoDay(now);
  return [localTime(date), localTime(shiftDay(date, 1))];
}

async function guide(view, content) {
  // The service's clock: a lab may have moved it.
  const [{ now }, all] = await Promise.all([get('clock'), channels(view.channel)]);
  if (all.length === 0) return el('p.quiet', view.channel ? t`Nothing matches.` : t`No livestreams.`);
  const pages = Math.ceil(all.length / CHANNELS);
  const page = Math.min(view.page, pages);
  const shown = all.slice((page - 1) * CHANNELS, page * CHANNELS);
  const [from, to] = period(view, now);
  const lists = await broadcasts(shown.map(({ id }) => id), from, to);
  const turn = (text, number) =>
    number >= 1 && number <= pages && el('a.button', { href: address(view, { page: number }) }, text);
  return [
    el('p', el('strong', dayName(from)), ' ', quiet(zoneTitle(from))),
    grid({ channels: shown, lists, from, to, now, content }),
    pages > 1 &&
      el('nav.actions', { 'aria-label': t`List pages` }, [
        turn(t`Previous`, page - 1),
        quiet(t`Channels ${(page - 1) * CHANNELS + 1}–${(page - 1) * CHANNELS + shown.length} of ${all.length}`),
        turn(t`Next`, page + 1),
      ]),
  ];
}

const zoneTitle = (at) => (zoneName() === zoneShort(at) ? t`Times in ${zoneName()}` : t`Times in ${zoneName()} (${zoneShort(at)})`);

/** Programmes with a text in their title, on the shown day, of all channels. */
function found(view, content, search) {
  let from = 0;
  const load = async () => {
    const [{ now }, all] = await Promise.all([get('clock'), channels(view.channel)]);
    const [start, end] = period(view, now);
    from = start;
    const lists = await broadcasts(all.map(({ id }) => id), start, end);
    const fits = finder(view.find);
    const hits = (channel) => (lists.get(channel.id) ?? []).filter(({ title }) => fits([title])).map((one) => ({ ...one, channel }));
    return all.flatMap(hits);
  };
  const time = ({ start, stop }) => `${clockTime(start)}–${clockTime(stop)}`;
  const { page, ...keep } = view;
  return list(t`Found`, load, {
    search,
    searchLabel: t`Filter this list`,
    keep,
    csv: 'programmes',
    sort: 'start',
    matches: ({ title, channel }) => [title, channel.name, channel.id],
    columns: [
      { head: t`Time`, id: 'start', value: ({ start }) => start, cell: time, csv: ({ start }) => new Date(start * 1000).toISOString() },
      { head: t`Title`, id: 'title', value: ({ title }) => title, cell: ({ id, title }) => (content ? link(title, 'broadcast', id) : title) },
      { head: t`Livestream`, id: 'livestream', value: ({ channel }) => channel.name, cell: ({ channel }) => link(channel.name, 'schedule', channel.id) },
    ],
    more: ({ total }) =>
      el('p', [
        total === 1
          ? t`1 programme on ${dayName(from)}, times in ${zoneName()}`
          : t`${total} programmes on ${dayName(from)}, times in ${zoneName()}`,
        '. ',
        el('a', { href: address(view, { find: '', page: 1 }) }, t`Back to the guide`),
      ]),
  });
}

// -- One livestream

function one(livestream, asked, role, head) {
  const content = role !== 'agent';
  const load = async () => {
    const [{ now }, all] = await Promise.all([get('clock'), channels('')]);
    const channel = all.find(({ id }) => id === livestream);
    if (!channel) throw Object.assign(new Error(t`the catalogue has no livestream “${livestream}”`), { status: 404 });
    const period_ = period({ day: asked }, now);
    const lists = await broadcasts([livestream], ...period_);
    return { channel, now, from: period_[0], list: lists.get(livestream) };
  };
  const back = [t`All livestreams`, '#/schedule'];
  head(t`Livestream`, { back });
  return subject(load, (found) => {
    const { id, name, picture } = found.channel;
    const watch = role !== 'content' && el('a.button.small', { href: `#/sessions${query({ asset: id })}` }, t`Who watches`);
    const edit = content && el('a.button.small', { href: `#/catalog/livestream/${encodeURIComponent(id)}` }, t`Edit`);
    head(name, { back, beside: [logo(picture && id, name), name !== id && el('code', id), watch, edit] });
    return [panel('', () => day(found, asked, content))];
  });
}

function day({ channel: { id }, now, from, list }, asked, content) {
  // What a viewer may not do is named; a badge for each right would make the list three times as tall.
  const rows = list.map((one) => [
    [clock(one.start), '–', clock(one.stop)],
    [
      // Agents may not read rights; they check the entitlement of a user.
      content ? link(one.title, 'broadcast', one.id) : el('a', { href: `#/why${query({ asset: one.id })}` }, one.title),
      one.start <= now && now < one.stop && [' ', badge(t`now`, 'good')],
      one.pgAge > 0 && [' ', badge(`${one.pgAge}+`)],
      !one.liveAvailable && [' ', badge(t`no live rights`, 'bad')],
      !one.catchupInterval && [' ', badge(t`no catch-up`)],
    ],
  ]);
  const path = `#/schedule/${encodeURIComponent(id)}`;
  return [
    days(asked || isoDay(now), (other) => path + query({ day: other })),
    el('p', el('strong', dayName(from)), ' ', quiet(zoneTitle(from))),
    table([t`Time`, t`Title`], rows, t`No broadcasts on this day.`, { compact: true }),
  ];
}

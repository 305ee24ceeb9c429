// Playback quality: charts over time and figures by a dimension, from the series of the quality figures. Each value of
// a table narrows the page to it; the single views lead to the requests behind them.
import { get, query } from './api.js';
import { charts } from './chart.js';
import { absent, badge, brief, choice, clipped, count, el, quiet, table, when } from './dom.js';
import { isoTime, number, t } from './i18n.js';
import { list } from './list.js';
import { person, watched, watchedText } from './names.js';
import { form, panel } from './panel.js';

const HOUR = 3_600;
const DAY = 86_400;
const ROWS = 25;
const VIEWS = 500;

const SPANS = () => [
  [1, t`1 hour`],
  [6, t`6 hours`],
  [24, t`24 hours`],
  [168, t`7 days`],
  [744, t`31 days`],
];

const DIMENSIONS = () => ({
  platform: t`Platform`,
  asset: t`Asset`,
  livestream: t`Livestream`,
  deviceType: t`Device type`,
  deviceModel: t`Device model`,
  appVersion: t`Application version`,
  partner: t`Partner`,
  protocol: t`Protocol`,
  drm: 'DRM',
  country: t`Country`,
});

const OUTCOMES = () => ({
  starting: [t`starting`, ''],
  played: [t`played`, 'good'],
  start_failed: [t`failed to start`, 'bad'],
  exited_before_start: [t`left before the start`, 'warn'],
  playback_failed: [t`failed while playing`, 'bad'],
});

const tenths = (value) => number(value, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const percent = (part) => `${tenths(part * 100)} %`;
const seconds = (ms) => `${tenths(ms / 1_000)} s`;
const megabits = (bits) => `${tenths(bits / 1e6)} Mbit/s`;

/** Attempts that failed to start, as a part of all. */
const failing = ({ startFailures, attempts }) => (attempts ? startFailures / attempts : undefined);

// Title, unit, factor, the lines with their names, and whether it is a number of events. A line that others are compared with is the first one.
const CHARTS = () => [
  [t`Start failures`, '%', 100, [[t`of attempts`, failing]]],
  [t`Attempts`, t`views`, 1, [['', ({ attempts }) => attempts]], true],
  [t`Start-up time`, 's', 1e-3, [
    [t`median`, ({ startupP50Millis }) => startupP50Millis],
    [t`95th percentile`, ({ startupP95Millis }) => startupP95Millis],
  ]],
  [t`Rebuffering`, '%', 100, [['', ({ rebufferRatio }) => rebufferRatio]]],
  [t`Concurrent streams`, t`sessions`, 1, [['', ({ maxConcurrent }) => maxConcurrent]]],
  [t`Mean bitrate`, 'Mbit/s', 1e-6, [['', ({ meanBitrate }) => meanBitrate]]],
];

/** The state of the page, which is its address. */
function asked(search) {
  const hours = Number(search.get('hours') ?? 6);
  const to = search.get('to') ?? '';
  const by = search.get('by') ?? 'platform';
  const where = search.getAll('where').filter((text) => text.includes('='));
  return { hours, to, by: by in DIMENSIONS() ? by : 'platform', where, before: search.get('before') === '1' };
}

function place({ hours, to, by, where, before }) {
  const members = new URLSearchParams({ hours, by });
  if (to) members.set('to', to);
  if (before) members.set('before', 1);
  for (const one of where) members.append('where', one);
  return `#/quality?${members}`;
}

const narrowed = (now, dimension, value) => ({
  ...now,
  where: [...now.where.filter((one) => !one.startsWith(`${dimension}=`)), `${dimension}=${value}`],
});

/** The filters as parts of a query. */
const filters = ({ where }) => where.map((one) => `&where=${encodeURIComponent(one)}`).join('');

export function quality({ search, about }) {
  const now = asked(search);
  const panels = [panel('', () => figures(now))];
  // The single views name users, as playback sessions do.
  if (['admin', 'observer'].includes(about.role)) panels.push(views(now, search));
  return panels;
}

async function span({ hours, to: end }) {
  const to = Number(end) || (await get('clock')).now;
  return { from: to - hours * HOUR, to };
}

async function figures(now) {
  const [{ from, to }, { now: clock }] = await Promise.all([span(now), get('clock')]);
  const series = (shift) => get(`telemetry/series${query({ from: from - shift, to: to - shift })}${filters(now)}`);
  const [of, earlier, { rows }] = await Promise.all([
    series(0),
    now.before ? series(DAY) : null,
    get(`telemetry/report${query({ from, to, by: now.by })}${filters(now)}`),
  ]);
  const none = of.total.attempts + of.total.plays === 0;
  return [
    controls(now),
    chosen(now),
    el('p.quiet', when(from), ' – ', when(to), now.to && [' · ', el('a', { href: place({ ...now, to: '' }) }, t`up to now`)]),
    none
      ? el('p.quiet', t`No views in this period.`)
      : [
          charts(period(of, now), CHARTS().map((one) => plot(one, of, earlier, clock))),
          el('h2', DIMENSIONS()[now.by]),
          breakdown(rows, now, of.total),
          codes(of.total),
        ],
  ];
}

function controls(now) {
  return form(
    t`Show`,
    [
      choice(t`Period`, 'hours', SPANS(), now.hours),
      choice(t`Group by`, 'by', Object.entries(DIMENSIONS()), now.by),
      choice(
        t`Compare with`,
        'before',
        [
          ['', t`nothing`],
          ['1', t`the day before`],
        ],
        now.before ? '1' : '',
      ),
    ],
    ({ hours, by, before }) => {
      location.hash = place({ ...now, hours, by, before: before === '1' });
    },
    { reads: true },
  );
}

/** What the page is narrowed to. */
function chosen(now) {
  const names = DIMENSIONS();
  return (
    now.where.length > 0 &&
    el(
      'p.actions',
      now.where.map((one) => {
        const [dimension, ...value] = one.split('=');
        const name = names[dimension] ?? dimension;
        const without = place({ ...now, where: now.where.filter((other) => other !== one) });
        return el('a.button', { href: without, 'aria-label': t`Remove ${name}` }, `${name}: ${value.join('=')} ×`);
      }),
    )
  );
}

/** The period of the charts. A click shows a step and the ones beside it, with a point for each minute. */
function period({ from, to, step }, now) {
  const show = (first, last) => {
    const hours = Math.max(1, Math.ceil((last - first) / HOUR));
    location.hash = place({ ...now, hours, to: Math.min(to, Math.ceil((first + last + hours * HOUR) / 2)) });
  };
  return { from, to, step, zoom: ([first, last]) => show(first, last), open: (at) => show(at - step, at + 2 * step) };
}

function plot([title, unit, factor, lines, counts], { from, to, step, points }, earlier, clock) {
  const times = Array.from({ length: Math.ceil((to - from) / step) }, (_, i) => from + i * step);
  // The number of a step that is not over yet would be drawn as a fall; a part or a mean would not.
  const isOver = (time) => !counts || time + step <= clock;
  const line = (name, of, there, shift) => {
    const at = new Map(there.map((point) => [point.at + shift, point]));
    const value = (time) => (at.has(time) && isOver(time) ? (of(at.get(time)) ?? null) : null);
    return { name, points: times.map((time) => [time, value(time) === null ? null : value(time) * factor]) };
  };
  const series = lines.map(([name, of]) => line(name, of, points, 0));
  if (earlier) {
    const [[name, of]] = lines;
    series.push({ ...line([name, t`day before`].filter(Boolean).join(', '), of, earlier.points, DAY), earlier: true });
    series[0].name ||= t`this period`;
  }
  return { title, unit, series };
}

const figure = (value, write) => (value === undefined ? absent() : write(value));

function breakdown(rows, now, total) {
  const heads = [
    DIMENSIONS()[now.by],
    t`Attempts`,
    t`Start failures`,
    t`Left before the start`,
    t`Start-up time`,
    t`Rebuffering`,
    t`Failed while playing`,
    t`Mean bitrate`,
  ];
  const cells = (name, of) => [
    name,
    count(of.attempts),
    of.startFailures ? badge(`${percent(failing(of) ?? 0)} (${count(of.startFailures)})`, 'bad') : '0',
    count(of.exitsBeforeStart),
    figure(of.startupP50Millis, seconds),
    figure(of.rebufferRatio, percent),
    count(of.playbackFailures),
    figure(of.meanBitrate, megabits),
  ];
  // Most start failures first.
  const sorted = rows.toSorted((a, b) => b.startFailures - a.startFailures || b.attempts - a.attempts);
  const row = ({ key, ...of }) => {
    const value = key[now.by];
    const narrow = () => el('a', { href: place(narrowed({ ...now, by: next(now) }, now.by, value)) }, value);
    return cells(value === undefined ? quiet(t`unknown`) : narrow(), of);
  };
  const rest = sorted.length - ROWS;
  return [
    table(heads, [...sorted.slice(0, ROWS).map(row), cells(el('strong', t`All`), total)]),
    rest > 0 && el('p.quiet', t`${count(rest)} more with fewer start failures`),
  ];
}

/** What to break down by after a value was chosen: where it happens, then on what. */
function next({ by, where }) {
  const taken = [by, ...where.map((one) => one.split('=')[0])];
  return ['platform', 'asset', 'deviceModel', 'appVersion'].find((one) => !taken.includes(one)) ?? by;
}

function codes({ failureCodes = {} }) {
  const rows = Object.entries(failureCodes).sort(([, a], [, b]) => b - a);
  const cells = rows.map(([code, number]) => [el('code', code), count(number)]);
  return cells.length > 0 && [el('h2', t`Failures by code`), table([t`Code`, t`Views`], cells, undefined, { compact: true })];
}

// -- Single views

function views(now, search) {
  const outcomes = OUTCOMES();
  // The newest only, so the server filters.
  const load = async ({ chosen: { outcome } }) =>
    get(`telemetry/views${query({ ...(await span(now)), outcome, limit: VIEWS })}${filters(now)}`);
  const requests = ({ began, userId, sessionId, key }) =>
    sessionId && el('a', { href: `#/requests${query({ user: userId, asset: key.asset, time: isoTime(began) })}` }, t`Requests`);
  const named = (one) => watchedText({ ...one, asset: one.key.asset });
  const software = ({ key }) => [key.platform, key.appVersion].filter(Boolean).join(' ');
  const ending = ({ outcome, failureCode }) => {
    const [name, kind] = outcomes[outcome];
    return el('span.calm', badge(name, kind), failureCode && [' ', el('code', failureCode)]);
  };
  return list(t`Single views`, load, {
    search,
    keep: { ...now, before: now.before ? 1 : '' },
    csv: 'views',
    zoned: true,
    none: t`No views of this kind. Single views are kept for an hour after their end.`,
    matches: ({ email, userId, failureCode, key, title, livestreamName }) => [email, userId, failureCode, title, livestreamName, ...Object.values(key)],
    filters: [
      {
        name: 'outcome',
        label: t`Outcome`,
        options: Object.entries(outcomes).map(([id, [name]]) => [id, name]),
        test: () => true,
      },
    ],
    columns: [
      { head: t`Began`, id: 'began', value: ({ began }) => began, cell: ({ began }) => brief(began) },
      { head: t`User`, grow: 2, csv: ({ email, userId }) => email ?? userId, cell: (one) => (one.userId ? person(one) : quiet(t`erased`)) },
      { head: t`Asset`, id: 'asset', grow: 3, value: named, cell: (one) => watched({ ...one, asset: one.key.asset }) },
      { head: t`Device`, id: 'device', grow: 2, value: ({ key }) => key.deviceModel, cell: (one) => clipped(`${one.key.deviceModel ?? ''} ${software(one)}`.trim(), one.key.deviceModel, ' ', quiet(software(one))) },
      { head: t`Outcome`, id: 'outcome', value: ({ outcome, failureCode = '' }) => `${outcome} ${failureCode}`.trim(), cell: ending },
      {
        head: t`Start-up time`,
        id: 'startup',
        value: ({ startupMillis }) => startupMillis,
        cell: ({ startupMillis }) => figure(startupMillis, seconds),
      },
      {
        head: t`Rebuffering`,
        id: 'rebuffering',
        value: ({ rebufferRatio }) => rebufferRatio,
        cell: ({ rebufferRatio }) => figure(rebufferRatio, percent),
      },
      { head: t`Requests`, cell: requests },
    ],
    more: ({ total }) => total === VIEWS && el('p.quiet', t`The newest ${VIEWS} only.`),
  });
}

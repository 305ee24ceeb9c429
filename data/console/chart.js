// Charts over time as SVG: axes with units, the zone of the times, a legend, a read-out under the pointer, and the same
// numbers as a table for those who do not see the picture.
import { clock, el, quiet, svg, table } from './dom.js';
import { clockTime, dayName, number, t, zoneShort } from './i18n.js';

// Close to the width and height at which a chart is shown, so that its texts keep their font size.
const WIDTH = 340;
const HEIGHT = 150;
const LEFT = 40;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 22;
const TABLE_ROWS = 12;

/** The next number of 1, 2, 2.5, 5, 10, … from `value` on. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value - power * 1e-9);
}

/** Whole days, hours or minutes at which the time axis has a mark: at most `most`. */
function marks(from, to, most) {
  const steps = [60, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800];
  const step = steps.find((one) => (to - from) / one <= most) ?? 2_592_000;
  const first = Math.ceil(from / step) * step;
  return Array.from({ length: Math.floor((to - first) / step) + 1 }, (_, i) => first + i * step);
}

const short = (value) => number(value, { notation: 'compact', maximumSignificantDigits: 3 });

/**
 * Charts of one period. Pointing at a time of one shows that time in all of them, and dragging over one calls
 * `zoom([from, to])`. `open(seconds)` is called when a time is clicked.
 *
 * A chart: { title, unit, series, bars, none }. `series`: { name, points: [[seconds, value or null], …] }, all with the
 * same times. `bars` stacks the series; else they are lines, with a gap where a value is absent; one that is `earlier` is
 * drawn lighter. `unit` stands at the axis. `none` says that all values are 0 or absent.
 */
export function charts(period, list) {
  const figures = list.map((one) => figure(one, period, (at) => figures.forEach(({ point }) => point(at))));
  return el('div.charts', figures.map(({ element }) => element));
}

function figure({ title, unit, series, bars = false, none }, { from, to, step = 60, zoom, open }, point) {
  const shown = series.slice(0, 6);
  const times = shown[0]?.points.map(([at]) => at) ?? [];
  const sums = times.map((_, i) => shown.reduce((sum, { points }) => sum + (points[i][1] ?? 0), 0));
  const values = bars ? sums : shown.flatMap(({ points }) => points.map(([, value]) => value ?? 0));
  const most = Math.max(0, ...values);
  const top = most > 0 ? nice(most / 4) * 4 : 1;
  const x = (at) => LEFT + ((at - from) / Math.max(1, to - from)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const last = shown.map(({ name, points }) => [name, points.at(-1)?.[1]]).filter(([, value]) => value != null);
  const nonzero = last.filter(([, value]) => value !== 0);
  const said = nonzero.map(([name, value]) => `${name ? `${name}: ` : ''}${short(value)}`).join(', ');
  const spoken = said || (last.length > 0 ? short(0) : '');
  const isEmpty = shown.every(({ points }) => points.every(([, value]) => value === null || value === undefined));
  const nothing = (most === 0 && none) || (isEmpty && t`no figures in this period`);
  const readout = el('p.readout');
  const pointer = svg('line', { class: 'pointer', y1: TOP, y2: HEIGHT - BOTTOM });
  const picture = svg(
    'svg',
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: 'img',
      'aria-label': nothing ? `${title}: ${nothing}` : t`${title} (${unit}): ${spoken}, at most ${short(most)}`,
    },
    axes({ from, to, most, top, x, y }),
    bars ? stacks(shown, times, x, y, step) : shown.map((one, i) => path(one, i, x, y)),
    nothing && svg('text', { class: 'nothing', x: (LEFT + WIDTH - RIGHT) / 2, y: (TOP + HEIGHT - BOTTOM) / 2 }, nothing),
    pointer,
  );
  /** Shows the values at a time; without one the last values. */
  const show = (at) => {
    const i = at === undefined ? -1 : nearest(times, at);
    pointer.setAttribute('x1', i < 0 ? -9 : x(times[i]));
    pointer.setAttribute('x2', i < 0 ? -9 : x(times[i]));
    const all = i < 0 ? [] : shown.map(({ name, points }) => `${name ? `${name} ` : ''}${format(points[i][1], unit)}`);
    readout.replaceChildren(...(i < 0 ? [quiet(!nothing && spoken ? t`now ${spoken}` : '')] : [clock(times[i]), ` · ${all.join(' · ')}`]));
  };
  show();
  choose(picture, { from, to, x }, { point, zoom, open: open && ((at) => open(times[nearest(times, at)])), step });
  const element = el(
    'figure',
    el('figcaption', el('strong', title), ' ', quiet(`${unit} · ${zoneShort(to)}`)),
    picture,
    shown.length > 1 && legend(shown),
    readout,
    numbers(shown, times, unit, open),
  );
  return { element, point: show };
}

/** The lines of values and the marks of times. */
function axes({ from, to, most, top, x, y }) {
  const lines = most > 0 ? [0, 1, 2, 3, 4].map((part) => (top * part) / 4) : [0];
  const isDays = to - from > 2 * 86_400;
  const label = (at) => (isDays ? dayName(at) : clockTime(at));
  return [
    lines.map((value) => [
      svg('line', { class: 'axis', x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      svg('text', { class: 'tick end', x: LEFT - 6, y: y(value) + 4 }, short(value)),
    ]),
    marks(from, to, isDays ? 4 : 6).map((at) => [
      svg('line', { class: 'mark', x1: x(at), x2: x(at), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 }),
      svg('text', { class: 'tick', x: Math.min(WIDTH - (isDays ? 30 : 18), x(at)), y: HEIGHT - 5 }, label(at)),
    ]),
  ];
}

/** Lets a pointer choose a time, by pointing or a click, or a period, by dragging. */
function choose(picture, { from, to, x }, { point, zoom, open, step }) {
  let start;
  const chosen = svg('rect', { class: 'chosen', y: TOP, height: HEIGHT - TOP - BOTTOM, width: 0 });
  picture.append(chosen);
  if (zoom) picture.classList.add('zooms');
  else if (open) picture.classList.add('opens-time');
  const time = (event) => {
    const box = picture.getBoundingClientRect();
    const at = from + (((event.clientX - box.left) / box.width) * WIDTH - LEFT) * ((to - from) / (WIDTH - LEFT - RIGHT));
    return Math.round(Math.min(to, Math.max(from, at)));
  };
  const period = (event) => [start, time(event)].sort((a, b) => a - b);
  picture.addEventListener('pointerdown', (event) => {
    start = zoom && time(event);
    if (zoom) picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener('pointermove', (event) => {
    point(time(event));
    if (start === undefined) return;
    const [first, last] = period(event);
    chosen.setAttribute('x', x(first));
    chosen.setAttribute('width', x(last) - x(first));
  });
  picture.addEventListener('pointerleave', () => point());
  picture.addEventListener('pointerup', (event) => {
    const [first, last] = start === undefined ? [] : period(event);
    start = undefined;
    chosen.setAttribute('width', 0);
    if (last - first >= 2 * step) zoom([first, last]);
    else open?.(time(event));
  });
}

const format = (value, unit) => (value === null || value === undefined ? '–' : `${number(value, { maximumFractionDigits: 2 })} ${unit}`);

function nearest(times, at) {
  if (!times.length) return -1;
  return times.reduce((best, time, i) => (Math.abs(time - at) < Math.abs(times[best] - at) ? i : best), 0);
}

/** A line with its gaps. A point without neighbours is a dot. */
function path({ points, earlier }, i, x, y) {
  const kind = `s${i}${earlier ? ' earlier' : ''}`;
  const is = (one) => one?.[1] !== null && one?.[1] !== undefined;
  const alone = points.filter((one, n) => is(one) && !is(points[n - 1]) && !is(points[n + 1]));
  let pen = 'M';
  const drawn = points.map((one) => {
    if (!is(one)) {
      pen = 'M';
      return '';
    }
    const part = `${pen}${x(one[0]).toFixed(1)} ${y(one[1]).toFixed(1)}`;
    pen = 'L';
    return part;
  });
  return [
    svg('path', { class: `series ${kind}`, d: drawn.join('') }),
    alone.map(([at, value]) => svg('circle', { class: `bar ${kind}`, cx: x(at).toFixed(1), cy: y(value).toFixed(1), r: 3 })),
  ];
}

function stacks(series, times, x, y, step) {
  const width = Math.max(2, x(step) - x(0));
  return times.map((at, t_) => {
    let base = 0;
    return series.map(({ points }, i) => {
      const value = points[t_][1] ?? 0;
      base += value;
      const height = y(0) - y(value);
      return value > 0 && svg('rect', { class: `bar s${i}`, x: x(at) - width, y: y(base), width, height });
    });
  });
}

const legend = (series) =>
  el(
    'ul.legend',
    series.map(({ name, earlier }, i) => el('li', svg('svg', { viewBox: '0 0 10 10', 'aria-hidden': 'true' }, svg('rect', { class: `bar s${i}${earlier ? ' earlier' : ''}`, width: 10, height: 10 })), name)),
  );

/** The newest numbers as a table. */
function numbers(series, times, unit, open) {
  const heads = [t`Time`, ...series.map(({ name }) => (name ? `${name} (${unit})` : unit))];
  const rows = times
    .map((at, i) => [open ? el('button.plain', { type: 'button', onclick: () => open(at) }, clock(at)) : clock(at), ...series.map(({ points }) => format(points[i][1], ''))])
    .slice(-TABLE_ROWS)
    .reverse();
  return rows.length > 0 && el('details', el('summary', t`Numbers`), table(heads, rows, undefined, { compact: heads.length <= 3 }));
}

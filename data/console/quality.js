// Playback quality from players' telemetry, by minute: streams, errors, startup time, rebuffering, bitrate.
import { get, query } from './api.js';
import { choice, clock, count, el, quiet, svg, table, when } from './dom.js';
import { form, panel } from './panel.js';

const HOUR = 3_600;
const SPANS = [
  [1, '1 hour'],
  [6, '6 hours'],
  [24, '24 hours'],
  [168, '7 days'],
];
const WIDTH = 300;
const HEIGHT = 60;

export function quality({ search }) {
  const hours = Number(search.get('hours') ?? 1);
  const asset = search.get('asset') ?? '';
  return [panel('', () => report(hours, asset))];
}

/** The weighted mean of a member; `null` if no row has it. */
function mean(rows, member, weight) {
  const there = rows.filter((row) => row[member] !== null && weight(row) > 0);
  const total = there.reduce((sum, row) => sum + weight(row), 0);
  return total ? there.reduce((sum, row) => sum + row[member] * weight(row), 0) / total : null;
}

const sum = (rows, member) => rows.reduce((total, row) => total + row[member], 0);

// Title, aggregation of the rows of a minute or an asset, and number format.
const FIGURES = [
  ['Streams', (rows) => sum(rows, 'streams'), count],
  ['Starts', (rows) => sum(rows, 'starts'), count],
  ['Errors', (rows) => sum(rows, 'errors'), count],
  [
    'Startup time',
    (rows) => mean(rows, 'startupMillis', ({ starts }) => starts),
    (ms) => `${(ms / 1000).toFixed(1)} s`,
  ],
  [
    'Rebuffering',
    (rows) => mean(rows, 'rebufferingRatio', ({ streams }) => streams),
    (part) => `${(part * 100).toFixed(1)} %`,
  ],
  [
    'Mean bitrate',
    (rows) => mean(rows, 'meanBitrate', ({ streams }) => streams),
    (bits) => `${(bits / 1e6).toFixed(1)} Mbit/s`,
  ],
];

const written = (figure, write) => (figure === null ? quiet('–') : write(figure));

async function report(hours, asset) {
  const { now: to } = await get('clock');
  const from = to - hours * HOUR;
  const { rows: all, cut } = await get(`telemetry/report${query({ from, to })}`);
  const rows = asset ? all.filter(({ assetId }) => assetId === asset) : all;
  const by = (member) => Map.groupBy(rows, (row) => row[member]);
  const minutes = [...by('minute')].sort(([a], [b]) => a - b);
  const assets = [...new Set(all.map(({ assetId }) => assetId).filter(Boolean))].sort();
  const open = (values) => {
    location.hash = `#/quality${query(values)}`;
  };
  // A sum over minutes would count a stream once per minute.
  const peak = (of) => Math.max(...of.map(({ streams }) => streams));
  const perAsset = [...by('assetId')].map(([id, of]) => [
    id ? el('code', id) : quiet('no asset id'),
    count(peak(of)),
    ...FIGURES.slice(1).map(([, figure, write]) => written(figure(of), write)),
  ]);
  return [
    form(
      'Show',
      [
        choice('Period', 'hours', SPANS, hours),
        choice('Asset', 'asset', [['', 'all'], ...assets.map((id) => [id, id])], asset),
      ],
      open,
    ),
    cut && el('p.refusal', 'The report is truncated. Choose a shorter period.'),
    rows.length === 0
      ? el('p.quiet', 'No telemetry in this period.')
      : [
          el('p.quiet', when(from), ' – ', when(to)),
          el(
            'div.charts',
            FIGURES.map((figure) => chart(figure, minutes, from, to)),
          ),
        ],
    rows.length > 0 && el('h3', 'By asset'),
    rows.length > 0 && table(['Asset', 'Peak streams', ...FIGURES.slice(1).map(([title]) => title)], perAsset),
  ];
}

/** A bar chart over time; minutes may have no value. */
function chart([title, figure, write], minutes, from, to) {
  const points = minutes.map(([minute, rows]) => [minute, figure(rows)]).filter(([, value]) => value !== null);
  const most = Math.max(0, ...points.map(([, value]) => value));
  const width = Math.max(1, (60 / (to - from)) * WIDTH);
  const bars = points.map(([minute, value]) => {
    const height = most ? (value / most) * HEIGHT : 0;
    const x = ((minute - from) / (to - from)) * WIDTH;
    return svg(
      'rect',
      { x, y: HEIGHT - height, width, height },
      svg('title', {}, `${clock(minute).textContent} ${write(value)}`),
    );
  });
  const last = points.at(-1);
  return el(
    'figure',
    el(
      'figcaption',
      title,
      ' ',
      el('strong', last ? write(last[1]) : '–'),
      quiet(last ? `, max ${write(most)}` : ''),
    ),
    svg(
      'svg',
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        preserveAspectRatio: 'none',
        role: 'img',
        'aria-label': `${title} by minute`,
      },
      bars,
    ),
  );
}

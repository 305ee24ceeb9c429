// Playback quality from players' telemetry, by minute: streams, errors, startup time, rebuffering, bitrate.
import { get, query } from './api.js';
import { chart } from './chart.js';
import { choice, count, el, quiet, table, when } from './dom.js';
import { t } from './i18n.js';
import { form, panel } from './panel.js';

const HOUR = 3_600;
const SPANS = () => [
  [1, t`1 hour`],
  [6, t`6 hours`],
  [24, t`24 hours`],
  [168, t`7 days`],
];

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

// Title, aggregation of the rows of a minute or an asset, number format, and unit and scale of the chart.
const FIGURES = () => [
  [t`Streams`, (rows) => sum(rows, 'streams'), count, t`streams`, 1],
  [t`Starts`, (rows) => sum(rows, 'starts'), count, t`per minute`, 1],
  [t`Errors`, (rows) => sum(rows, 'errors'), count, t`per minute`, 1],
  [
    t`Startup time`,
    (rows) => mean(rows, 'startupMillis', ({ starts }) => starts),
    (ms) => `${(ms / 1000).toFixed(1)} s`,
    's',
    1e-3,
  ],
  [
    t`Rebuffering`,
    (rows) => mean(rows, 'rebufferingRatio', ({ streams }) => streams),
    (part) => `${(part * 100).toFixed(1)} %`,
    '%',
    100,
  ],
  [
    t`Mean bitrate`,
    (rows) => mean(rows, 'meanBitrate', ({ streams }) => streams),
    (bits) => `${(bits / 1e6).toFixed(1)} Mbit/s`,
    'Mbit/s',
    1e-6,
  ],
];

const written = (figure, write) => (figure === null ? quiet('–') : write(figure));

/** A row of the report with `null` for what it has no figure for. */
const row = ({ key, ...figures }) => ({
  minute: key.minute ?? key.hour,
  assetId: key.asset ?? null,
  streams: figures.maxConcurrent,
  starts: figures.plays,
  errors: figures.startFailures + figures.playbackFailures,
  startupMillis: figures.startupP50Millis ?? null,
  rebufferingRatio: figures.rebufferRatio ?? null,
  meanBitrate: figures.meanBitrate ?? null,
});

async function report(hours, asset) {
  const { now: to } = await get('clock');
  const from = to - hours * HOUR;
  // A week by minute and asset would have more rows than a report may have.
  const step = hours > 24 ? 'hour' : 'minute';
  const { rows: read } = await get(`telemetry/report${query({ from, to, by: `${step},asset` })}`);
  const all = read.map(row);
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
    id ? el('code', id) : quiet(t`no asset id`),
    count(peak(of)),
    ...FIGURES().slice(1).map(([, figure, write]) => written(figure(of), write)),
  ]);
  return [
    form(
      t`Show`,
      [
        choice(t`Period`, 'hours', SPANS(), hours),
        choice(t`Asset`, 'asset', [['', t`all`], ...assets.map((id) => [id, id])], asset),
      ],
      open,
    ),
    rows.length === 0
      ? el('p.quiet', t`No telemetry in this period.`)
      : [
          el('p.quiet', when(from), ' – ', when(to)),
          el(
            'div.charts',
            FIGURES().map((figure) => plot(figure, minutes, from, to)),
          ),
        ],
    rows.length > 0 && el('h2', t`By asset`),
    rows.length > 0 && table([t`Asset`, t`Peak streams`, ...FIGURES().slice(1).map(([title]) => title)], perAsset),
  ];
}

function plot([title, figure, , unit, scale], minutes, from, to) {
  const values = minutes.map(([minute, rows]) => [minute, figure(rows)]);
  const points = values.map(([minute, value]) => [minute, value === null ? null : value * scale]);
  return chart({ title, unit, series: [{ name: '', points }], from, to });
}

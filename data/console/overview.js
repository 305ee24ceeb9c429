// The start page: readiness, problems with the place where they are fixed, charts of what is happening, key figures, and
// the first steps on an empty server.
import { get, metrics, readiness } from './api.js';
import { chart } from './chart.js';
import { badge, bytes, count, el, facts, quiet, span, table, when, yes } from './dom.js';
import { t } from './i18n.js';
import { panel } from './panel.js';

const EVERY = 15; // seconds
const OLD_BACKUP = 26 * 3_600; // a nightly backup plus two hours to finish
const SCARCE = 2e9; // free bytes
const CODES_SHOWN = 5;

/** The page on which the problem of a component is fixed. */
const PLACES = { backup: 'store', store: 'store', disk: 'store', mail: 'mail', EPG: 'guides', epg: 'guides', clock: '', fleet: 'fleet' };

/** Problems that need attention, each with the component that it concerns. */
function troubles(ready, figures, offset) {
  const said = (kind, of, text) => {
    const place = PLACES[of.split(/[ :]/)[0]];
    return el('li', badge(of, kind), ' ', text, place && [' ', el('a', { href: `#/${place}` }, t`Fix it`)]);
  };
  const found = [
    ...Object.entries(ready.reasons).map(([of, text]) => said('bad', of, text)),
    ...Object.entries(ready.warnings).map(([of, text]) => said('warn', of, text)),
  ];
  const note = (is, ...what) => is && found.push(said(...what));
  const moved = span(Math.abs(offset));
  note(offset !== 0, 'warn', 'clock', offset < 0 ? t`${moved} behind real time` : t`${moved} ahead of real time`);
  const free = figures.value('playgate_store_free_bytes');
  note(free < SCARCE, 'bad', 'disk', t`only ${bytes(free)} free`);
  const age = figures.value('playgate_backup_newest_age_seconds');
  note(age > OLD_BACKUP, 'warn', 'backup', t`the newest backup is ${span(age)} old`);
  const failed = figures.value('playgate_backup_last_failure_timestamp_seconds');
  note(failed !== undefined, 'bad', 'backup', [t`last failed backup:`, ' ', when(failed)]);
  const mailFails = figures.value('playgate_mail_server_failing') > 0;
  note(mailFails, 'bad', 'mail', t`the last attempt to use the mail server failed`);
  const panics = figures.value('playgate_http_panics_total');
  note(panics > 0, 'bad', 'panic', t`requests that panicked since the start: ${count(panics)}; see the log`);
  for (const { labels, value } of figures.series('playgate_job_failures_total')) {
    note(value > 0, 'warn', 'job', t`${labels.task}: failed runs since the start: ${count(value)}`);
  }
  for (const { labels, value } of figures.series('playgate_epg_import_awaiting_approval')) {
    note(value > 0, 'warn', 'EPG', t`${labels.source}: the last import is held and waits for approval`);
  }
  for (const { labels, value } of figures.series('playgate_epg_import_failures')) {
    note(value > 0, 'warn', 'EPG', t`${labels.source}: consecutive failures: ${count(value)}`);
  }
  return found;
}

async function draw(about) {
  const [ready, clock, figures] = await Promise.all([readiness(), get('clock'), metrics()]);
  const value = (name, labels) => figures.value(`playgate_${name}`, labels);
  const found = troubles(ready, figures, clock.offset);
  const age = value('backup_newest_age_seconds');
  const queued = value('mail_queued');
  return [
    el(`div.verdict.${ready.ready ? 'good' : 'bad'}`, ready.ready ? t`Ready` : t`Not ready`),
    found.length ? el('ul.troubles', found) : el('p.quiet', t`No problems.`),
    el('div.tiles', [
      tile(t`Playback sessions`, count(value('playback_sessions')), t`active`),
      tile(t`Connections`, count(value('http_connections')), t`open`),
      tile(t`Failed requests`, count(value('http_requests_total', { status: '5xx' }) ?? 0), t`5xx since the start`),
      tile(t`Last backup`, age === undefined ? t`none` : span(age), age === undefined ? t`yet` : t`ago`),
      tile(t`Mail queue`, count(queued), queued ? t`oldest ${span(value('mail_oldest_seconds'))}` : t`waiting`),
      tile(t`Disk`, bytes(value('store_free_bytes') ?? 0), t`free`),
    ]),
    facts([
      [t`Environment`, badge(about.environment, about.environment)],
      [t`Version`, about.version],
      [t`Public URL`, el('code', about.publicUrl)],
      [t`Clock`, [when(clock.now), clock.offset !== 0 && badge(t` moved by ${clock.offset} s`, 'warn')]],
      [t`Store`, yes(value('store_writable'), t`writable`, t`read-only`)],
      [t`Backups`, t`${count(value('backups') ?? 0)} kept`],
      [t`Mail sent`, t`${count(value('mail_attempts_total', { outcome: 'sent' }) ?? 0)} since the start`],
    ]),
    guides(figures),
  ];
}

const tile = (name, figure, unit) => el('div.tile', el('span', name), el('strong', figure), quiet(unit));

function guides(figures) {
  const rows = figures
    .series('playgate_epg_import_last_success_timestamp_seconds')
    .map(({ labels, value }) => [
      labels.source,
      value ? when(value) : quiet(t`never`),
      count(figures.value('playgate_epg_import_failures', labels)),
      count(figures.value('playgate_epg_unmapped_channels', labels)),
    ]);
  const heads = [t`Source`, t`Last success`, t`Failures`, t`Unmapped channels`];
  return rows.length > 0 && [el('h3', t`EPG sources`), table(heads, rows)];
}

// -- Charts

/** Counts per interval as counts per minute. */
const perMinute = (samples, step, of) => samples.map((sample) => [sample.at, ((of(sample) ?? 0) * 60) / step]);

/** A series for each name that the samples count, the most frequent first; the rest as one. */
function byName(samples, step, member, most) {
  const totals = new Map();
  for (const sample of samples) {
    for (const [name, number] of Object.entries(sample[member])) totals.set(name, (totals.get(name) ?? 0) + number);
  }
  const names = [...totals].sort(([, a], [, b]) => b - a).map(([name]) => name);
  const shown = names.slice(0, most).map((name) => ({ name, points: perMinute(samples, step, (one) => one[member][name]) }));
  const rest = names.slice(most);
  if (rest.length) {
    const sum = (one) => rest.reduce((all, name) => all + (one[member][name] ?? 0), 0);
    shown.push({ name: t`others`, points: perMinute(samples, step, sum) });
  }
  return shown;
}

/** By name, so that each class of status keeps its colour. */
const byClass = (a, b) => a.name.localeCompare(b.name);

async function activity(period) {
  const [{ step, samples }, { now }] = await Promise.all([get(`activity?period=${period}`), get('clock')]);
  const from = now - (period === 'day' ? 86_400 : 3_600);
  const there = samples.filter(({ at }) => at >= from && at <= now + step);
  const millis = (member) => there.map((one) => [one.at, one[member] === undefined ? null : one[member] / 1000]);
  const other = period === 'day' ? 'hour' : 'day';
  // Before the first sample nothing is known, which is not the same as none.
  const known = there.length > 0;
  const draws = (title, unit, none, series, bars = false) => chart({ title, unit, none: known && none, series, from, to: now, bars, step });
  const empty = (series) => (series.length ? series : [{ name: '', points: perMinute(there, step, () => 0) }]);
  return [
    el('p.actions', [
      el('strong', period === 'day' ? t`Last 24 hours` : t`Last hour`),
      el('a', { href: `#/overview?period=${other}` }, other === 'day' ? t`Last 24 hours` : t`Last hour`),
      !known && quiet(t`The first sample comes within 30 seconds of the start.`),
    ]),
    el('div.charts', [
      draws(t`Streams`, t`sessions`, t`no streams in this period`, [{ name: '', points: there.map(({ at, streams }) => [at, streams]) }]),
      draws(t`Requests by status`, t`per minute`, t`no requests in this period`, empty(byName(there, step, 'requests', 5).sort(byClass)), true),
      draws(t`Refusals by code`, t`per minute`, t`no refusals in this period`, empty(byName(there, step, 'refusals', CODES_SHOWN)), true),
      draws(
        t`Log-ins`,
        t`per minute`,
        t`no log-ins in this period`,
        [
          { name: t`successful`, points: perMinute(there, step, ({ logins }) => logins) },
          { name: t`refused`, points: perMinute(there, step, ({ refusedLogins }) => refusedLogins) },
        ],
        true,
      ),
      draws(t`Latency`, 'ms', t`no requests in this period`, [
        { name: t`median`, points: millis('latencyP50Micros') },
        { name: t`99th percentile`, points: millis('latencyP99Micros') },
      ]),
    ]),
  ];
}

// -- First steps

/** What an empty server needs before the first stream; nothing once all of it is there. */
async function firstSteps() {
  const [partners, sources, catalog, backups] = await Promise.all([
    get('partners'),
    get('epg/sources'),
    get('catalog?format=json'),
    get('backups'),
  ]);
  const users = partners.reduce((sum, one) => sum + one.users, 0);
  const has = (list) => (list ?? []).length > 0;
  const steps = [
    [has(partners), t`Add a partner and give its developers the access token.`, 'access'],
    [has(catalog.livestream) || has(catalog.asset), t`Import a catalogue of livestreams and videos.`, 'catalog/import'],
    [has(catalog.offer), t`Define offers: what users may watch.`, 'catalog/offers'],
    [has(sources), t`Configure an EPG source, or import a guide.`, 'guides'],
    [users > 0, t`Let the first user sign up, or import users.`, 'users'],
    [has(backups), t`Create a backup.`, 'store'],
  ];
  const [needed] = [steps.slice(0, 3).some(([done]) => !done)];
  if (!needed) return null;
  return el(
    'ol.steps',
    steps.map(([done, text, place]) => el('li', done ? badge(t`done`, 'good') : badge(t`open`), ' ', el('a', { href: `#/${place}` }, text))),
  );
}

export function overview({ about, search }) {
  const period = search.get('period') === 'day' ? 'day' : 'hour';
  const steps = el('div');
  if (['admin', 'observer'].includes(about.role)) {
    firstSteps().then(
      (contents) => contents && steps.replaceWith(panel(t`First steps`, () => contents)),
      () => {}, // The page itself shows what is wrong.
    );
  }
  return [
    steps,
    panel(t`Service`, () => draw(about), { every: EVERY }),
    panel(t`Activity`, () => activity(period), { every: EVERY }),
  ];
}

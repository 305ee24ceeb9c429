// The start page: what needs a hand, with the place where it is fixed; key figures; charts of what is happening; the
// server; and the first steps on an empty one.
import { get, metrics, query, readiness } from './api.js';
import { charts } from './chart.js';
import { badge, bytes, count, el, facts, quiet, span, when, yes } from './dom.js';
import { number, t } from './i18n.js';
import { notice } from './icons.js';
import { panel } from './panel.js';

const EVERY = 15; // seconds
const OLD_BACKUP = 26 * 3_600; // a nightly backup plus two hours to finish
const SCARCE = 2e9; // free bytes
const CODES_SHOWN = 5;
const RECENT = 300; // seconds of the figures per minute
// Refusals of each minute that need a hand, and their part of all requests: some are as they should be.
const MANY_REFUSALS = 20;
const LARGE_PART = 0.3;

/** The component of a problem, and the page on which it is fixed. */
const PLACES = () => ({
  backup: [t`Backups`, 'store'],
  store: [t`Store`, 'store'],
  disk: [t`Disk`, 'store'],
  mail: [t`Mail`, 'mail'],
  EPG: [t`EPG sources`, 'guides'],
  epg: [t`EPG sources`, 'guides'],
  clock: [t`Clock`, ''],
  fleet: [t`Fleet`, 'fleet'],
  rules: [t`Rules`, 'catalog/rules'],
  requests: [t`Requests`, 'requests'],
});

/** What needs a hand, the worst first: severity, component, text, address. */
function troubles(ready, figures, offset, now) {
  const found = [
    ...Object.entries(ready.reasons).map(([of, text]) => ['bad', of, text]),
    ...Object.entries(ready.warnings).map(([of, text]) => ['warn', of, text]),
  ];
  const note = (is, ...what) => is && found.push(what);
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
  const source = ({ source: name }) => `guides/${encodeURIComponent(name)}`;
  for (const { labels, value } of figures.series('playgate_epg_import_awaiting_approval')) {
    note(value > 0, 'warn', 'EPG', t`${labels.source}: the last import is held and waits for approval`, source(labels));
  }
  for (const { labels, value } of figures.series('playgate_epg_import_failures')) {
    note(value > 0, 'warn', 'EPG', t`${labels.source}: consecutive failures: ${count(value)}`, source(labels));
  }
  const { refused, requests, code } = now;
  const many = refused >= MANY_REFUSALS && refused >= LARGE_PART * requests;
  const refusals = () => t`${whole(refused)} of ${whole(requests)} requests a minute are refused, most with ${code}`;
  note(many, 'bad', 'requests', many && refusals(), `requests${query({ status: 'refused', code })}`);
  return found.sort(([a], [b]) => (a === b ? 0 : a === 'bad' ? -1 : 1));
}

const whole = (value) => number(value, { maximumFractionDigits: value < 10 ? 1 : 0 });

function trouble([kind, of, text, address]) {
  const [name, page] = PLACES()[of.split(/[ :]/)[0]] ?? [of];
  const to = address ?? page;
  const button = to && el('a.button.small', { href: `#/${to}`, 'aria-label': t`Fix it: ${name}` }, t`Fix it`);
  return notice(kind, name, text, button);
}

/** The figures per minute of the last minutes, from the samples of an hour. */
function recent({ step, samples }, now) {
  const there = samples.filter(({ at }) => at > now - RECENT);
  const minutes = Math.max(1, (there.length * step) / 60);
  const total = (member) => there.flatMap((one) => Object.entries(one[member]));
  const sum = (entries) => entries.reduce((all, [, value]) => all + value, 0) / minutes;
  const codes = new Map();
  for (const [code, value] of total('refusals')) codes.set(code, (codes.get(code) ?? 0) + value);
  const [code] = [...codes.keys()].sort((a, b) => codes.get(b) - codes.get(a));
  return { refused: sum([...codes]), requests: sum(total('requests')), failed: sum(total('requests').filter(([status]) => status === '5xx')), code, known: there.length > 0 };
}

/** Draws what is needed at once, and into `server` what is known of the server. */
async function draw(about, server) {
  const [ready, clock, figures, hour] = await Promise.all([readiness(), get('clock'), metrics(), get('activity?period=hour')]);
  const value = (name, labels) => figures.value(`playgate_${name}`, labels);
  const now = recent(hour, clock.now);
  const found = troubles(ready, figures, clock.offset, now);
  const age = value('backup_newest_age_seconds');
  const queued = value('mail_queued');
  server.replaceChildren(
    el('h2', t`This server`),
    facts([
      [t`Environment`, badge(about.environment, about.environment)],
      [t`Version`, about.version],
      [t`Public URL`, el('code', about.publicUrl)],
      [t`Clock`, [when(clock.now), clock.offset !== 0 && badge(t` moved by ${clock.offset} s`, 'warn')]],
      [t`Store`, yes(value('store_writable'), t`writable`, t`read-only`)],
      [t`Connections`, count(value('http_connections'))],
      [t`Backups`, t`${count(value('backups') ?? 0)} kept`],
      [t`Mail sent`, t`${count(value('mail_attempts_total', { outcome: 'sent' }) ?? 0)} since the start`],
    ]),
  );
  const rate = (of) => (now.known ? whole(of) : '–');
  return [
    el('div.panel', [
      el('h2', found.length ? t`Needs a hand` : t`Nothing needs a hand`),
      el('ul.troubles', [
        found.map(trouble),
        ready.ready && notice('good', t`Ready`, found.length ? t`Requests are answered.` : t`No problems.`),
      ]),
    ]),
    el('div.tiles', [
      tile(t`Playback sessions`, count(value('playback_sessions')), t`active`, 'sessions'),
      tile(t`Requests`, rate(now.requests), t`per minute`, 'requests'),
      tile(t`Refused`, rate(now.refused), t`per minute`, 'requests?status=refused'),
      tile(t`Failed requests`, count(value('http_requests_total', { status: '5xx' }) ?? 0), t`5xx since the start`, 'requests?status=5xx'),
      tile(t`Mail queue`, count(queued), queued ? t`oldest ${span(value('mail_oldest_seconds'))}` : t`waiting`, 'mail'),
      tile(t`Last backup`, age === undefined ? t`none` : span(age, 1), age === undefined ? t`yet` : t`ago`, 'store'),
      tile(t`Disk`, bytes(value('store_free_bytes') ?? 0), t`free`),
    ]),
  ];
}

const tile = (name, figure, unit, page) =>
  el(page ? 'a.tile' : 'div.tile', { href: page && `#/${page}` }, el('span', name), el('strong', figure), quiet(unit));

// -- Charts

/** Counts per interval as counts per minute. */
const perMinute = (samples, step, of) => samples.map((sample) => [sample.at, ((of(sample) ?? 0) * 60) / step]);

/** A series for each name that the samples count, the most frequent first; the rest as one. */
function byName(samples, step, member, most) {
  const totals = new Map();
  for (const sample of samples) {
    for (const [name, value] of Object.entries(sample[member])) totals.set(name, (totals.get(name) ?? 0) + value);
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

/** `range` is what the charts were zoomed to, if they were. */
async function activity(period, range, self) {
  const [{ step, samples }, { now }] = await Promise.all([get(`activity?period=${period}`), get('clock')]);
  const [from, to] = range.chosen ?? [now - (period === 'day' ? 86_400 : 3_600), now];
  // A sample that is not over yet would be drawn as a fall.
  const there = samples.filter(({ at }) => at >= from && at <= Math.min(to, now));
  const millis = (member) => there.map((one) => [one.at, one[member] === undefined ? null : one[member] / 1000]);
  const other = period === 'day' ? 'hour' : 'day';
  // Before the first sample nothing is known, which is not the same as none.
  const known = there.length > 0;
  const chart = (title, unit, none, series, bars = false) => ({ title, unit, none: known && none, series, bars });
  const all = (series) => (series.length ? series : [{ name: '', points: perMinute(there, step, () => 0) }]);
  const zoom = (chosen) => {
    range.chosen = chosen;
    self.reload();
  };
  return [
    el('p.actions', [
      el('strong', period === 'day' ? t`Last 24 hours` : t`Last hour`),
      el('a', { href: `#/overview?period=${other}` }, other === 'day' ? t`Last 24 hours` : t`Last hour`),
      range.chosen && el('button.small', { type: 'button', onclick: () => zoom(null) }, t`Show all`),
      !known && quiet(t`The first sample comes within 30 seconds of the start.`),
    ]),
    charts({ from, to, step, zoom }, [
      chart(t`Streams`, t`sessions`, t`no streams in this period`, [{ name: '', points: there.map(({ at, streams }) => [at, streams]) }]),
      chart(t`Requests by status`, t`per minute`, t`no requests in this period`, all(byName(there, step, 'requests', 5).sort(byClass)), true),
      chart(t`Refusals by code`, t`per minute`, t`no refusals in this period`, all(byName(there, step, 'refusals', CODES_SHOWN)), true),
      chart(
        t`Log-ins`,
        t`per minute`,
        t`no log-ins in this period`,
        [
          { name: t`successful`, points: perMinute(there, step, ({ logins }) => logins) },
          { name: t`refused`, points: perMinute(there, step, ({ refusedLogins }) => refusedLogins) },
        ],
        true,
      ),
      chart(t`Latency`, 'ms', t`no requests in this period`, [
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
  const range = {};
  const server = el('section.panel', { 'aria-label': t`This server` });
  const service = panel('', () => draw(about, server), { every: EVERY, bare: true });
  const drawn = panel(t`Activity`, (self) => activity(period, range, self), { every: EVERY });
  return [steps, service, drawn, server];
}

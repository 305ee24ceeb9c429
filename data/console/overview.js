// The start page: readiness, problems that need attention, and key figures.
import { get, metrics, readiness } from './api.js';
import { badge, bytes, count, el, facts, quiet, span, table, when, yes } from './dom.js';
import { panel } from './panel.js';

const EVERY = 15; // seconds
const OLD_BACKUP = 26 * 3_600; // a nightly backup plus two hours to finish
const SCARCE = 2e9; // free bytes

/** Problems that need attention, each with the component that it concerns. */
function troubles(ready, figures, offset) {
  const said = (kind, of, text) => el('li', badge(of, kind), ' ', text);
  const found = [
    ...Object.entries(ready.reasons).map(([of, text]) => said('bad', of, text)),
    ...Object.entries(ready.warnings).map(([of, text]) => said('warn', of, text)),
  ];
  const note = (is, ...what) => is && found.push(said(...what));
  note(
    offset !== 0,
    'warn',
    'clock',
    `moved ${span(Math.abs(offset))} ${offset < 0 ? 'behind' : 'ahead of'} real time`,
  );
  const free = figures.value('playgate_store_free_bytes');
  note(free < SCARCE, 'bad', 'disk', `only ${bytes(free)} free`);
  const age = figures.value('playgate_backup_newest_age_seconds');
  note(age > OLD_BACKUP, 'warn', 'backup', `the newest backup is ${span(age)} old`);
  const failed = figures.value('playgate_backup_last_failure_timestamp_seconds');
  note(failed !== undefined, 'bad', 'backup', ['last failed backup: ', when(failed)]);
  note(
    figures.value('playgate_mail_server_failing') > 0,
    'bad',
    'mail',
    'the last attempt to use the mail server failed',
  );
  const panics = figures.value('playgate_http_panics_total');
  note(panics > 0, 'bad', 'panic', `requests that panicked since the start: ${count(panics)}; see the log`);
  for (const { labels, value } of figures.series('playgate_job_failures_total')) {
    note(value > 0, 'warn', 'job', `${labels.task}: failed runs since the start: ${count(value)}`);
  }
  for (const { labels, value } of figures.series('playgate_epg_import_awaiting_approval')) {
    note(value > 0, 'warn', 'EPG', `${labels.source}: the last import is held and waits for approval`);
  }
  for (const { labels, value } of figures.series('playgate_epg_import_failures')) {
    note(value > 0, 'warn', 'EPG', `${labels.source}: consecutive failures: ${count(value)}`);
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
    el(`div.verdict.${ready.ready ? 'good' : 'bad'}`, ready.ready ? 'Ready' : 'Not ready'),
    found.length ? el('ul.troubles', found) : el('p.quiet', 'No problems.'),
    el('div.tiles', [
      tile('Playback sessions', count(value('playback_sessions')), 'active'),
      tile('Connections', count(value('http_connections')), 'open'),
      tile('Failed requests', count(value('http_requests_total', { status: '5xx' }) ?? 0), 'since the start'),
      tile('Last backup', age === undefined ? 'none' : span(age), age === undefined ? 'yet' : 'ago'),
      tile('Mail queue', count(queued), queued ? `oldest ${span(value('mail_oldest_seconds'))}` : 'waiting'),
      tile('Disk', bytes(value('store_free_bytes') ?? 0), 'free'),
    ]),
    facts([
      ['Environment', badge(about.environment, about.environment)],
      ['Version', about.version],
      ['Public URL', el('code', about.publicUrl)],
      ['Clock', [when(clock.now), clock.offset !== 0 && badge(` moved by ${clock.offset} s`, 'warn')]],
      ['Store', yes(value('store_writable'), 'writable', 'read-only')],
      ['Commits', count(value('store_commits_total'))],
      ['Backups', `${count(value('backups') ?? 0)} kept`],
      ['Records', age === undefined ? undefined : `${count(value('backup_newest_records'))} in the newest backup`],
      ['Mail sent', `${count(value('mail_attempts_total', { outcome: 'sent' }) ?? 0)} since the start`],
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
      value ? when(value) : quiet('never'),
      count(figures.value('playgate_epg_import_failures', labels)),
      count(figures.value('playgate_epg_unmapped_channels', labels)),
    ]);
  const heads = ['Source', 'Last success', 'Failures', 'Unmapped channels'];
  return rows.length > 0 && [el('h3', 'EPG sources'), table(heads, rows)];
}

export const overview = ({ about }) => [panel('', () => draw(about), { every: EVERY })];

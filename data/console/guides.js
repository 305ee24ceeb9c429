// EPG sources: state, last import, the mapping of their channels, and imports that are held for approval.
import { at, call, get, query, upload } from './api.js';
import { absent, badge, choice, clipped, count, el, facts, field, link, period, quiet, save, span, stamp, table, when } from './dom.js';
import { t } from './i18n.js';
import { notice } from './icons.js';
import { list } from './list.js';
import { action, form, mayChange, panel, refusal, subject } from './panel.js';

const KINDS = { ok: 'good', held: 'warn', failing: 'bad', new: '' };
// The troubled ones first.
const ORDER = ['failing', 'held', 'new', 'ok'];
const STATES = () => ({ ok: t`up to date`, held: t`held for approval`, failing: t`failing`, new: t`not fetched yet` });
const EDITS_SHOWN = 40;

const stateOf = ({ state }) => badge(STATES()[state] ?? state, KINDS[state]);

/** `#/guides`, or one source: `#/guides/NAME`. */
export function guides({ rest: [name], search, head }) {
  if (!name) return [sources(search), mayChange() && panel(t`Import a guide file`, importer)];
  const back = [t`All EPG sources`, '#/guides'];
  head(name, { back });
  return subject(
    () => get(at`epg/sources/${name}`),
    () => [panel('', (self) => source(name, self, (one) => head(name, { back, beside: stateOf(one) })))],
  );
}

const sources = (search) =>
  list('', () => get('epg/sources'), {
    search,
    csv: 'epg-sources',
    key: ({ name }) => name,
    sort: 'state',
    opens: true,
    zoned: true,
    none: t`No EPG sources. Configure them as epg.sources in playgate.toml, or import a file below.`,
    matches: ({ name, url, error }) => [name, url, error],
    filters: [{ name: 'state', label: t`State`, options: Object.entries(STATES()), test: ({ state }, value) => state === value }],
    columns: [
      { head: t`Source`, id: 'name', grow: 1, value: ({ name }) => name, cell: ({ name, url }) => el('span.clip', { title: url }, link(name, 'guides', name)) },
      { head: t`State`, id: 'state', value: ({ state }) => ORDER.indexOf(state), cell: stateOf, csv: ({ state }) => state },
      { head: t`What is wrong`, grow: 3, cell: wrong, csv: wrongText },
      { head: t`Last taken`, id: 'taken', value: (one) => one.lastSuccess ?? 0, cell: (one) => stamp(one.lastSuccess) },
      { head: t`Next attempt`, id: 'next', value: ({ next }) => next ?? 0, cell: ({ next }) => stamp(next) },
      number(t`Programmes`, 'programmes'),
      number(t`Unmapped`, 'unmapped'),
    ],
    bulk: [
      {
        verb: t`Import now`,
        work: ({ name }) => call('POST', at`epg/sources/${name}/refresh`),
      },
    ],
  });

/** A figure of the last import. */
const number = (head, member) => ({
  head,
  id: member,
  kind: 'number',
  value: ({ lastImport }) => lastImport?.[member] ?? 0,
  cell: ({ lastImport }) => (lastImport ? count(lastImport[member]) : absent()),
});

const wrongText = ({ state, error, failures, lastImport }) => {
  if (state === 'held') return lastImport.doubts.join('; ');
  return state === 'failing' ? [failures > 1 && t`${count(failures)} times:`, error].filter(Boolean).join(' ') : '';
};
const wrong = (one) => wrongText(one) && clipped(wrongText(one));

/** Summarizes what an import changed, or would change. */
const outcome = ({ added, changed, removed, unchanged }) =>
  t`${count(added)} added, ${count(changed)} changed, ${count(removed)} removed, ${count(unchanged)} unchanged`;

/** The reasons to hold an import, and the first changes that it would make. */
function preview(report) {
  const edits = (report.changes ?? []).flatMap(({ livestream, edits: all }) => all.map((edit) => [livestream, edit]));
  const aired = (one) => (one ? [period(one.start, one.stop), ' ', el('strong', one.title)] : quiet('–'));
  return el('div.outcome', [
    report.doubts?.length > 0 && el('div.refusal', el('strong', t`Why it is held:`), el('ul', report.doubts.map((one) => el('li', one)))),
    el('p', outcome(report)),
    edits.length > 0 &&
      table(
        [t`Livestream`, t`Before`, t`After`],
        edits.slice(0, EDITS_SHOWN).map(([livestream, { before, after }]) => [livestream, aired(before), aired(after)]),
      ),
    edits.length > EDITS_SHOWN && quiet(t`and ${count(edits.length - EDITS_SHOWN)} more`),
  ]);
}

async function source(name, self, shown) {
  const one = await get(at`epg/sources/${name}`);
  shown(one);
  const { state, lastImport: last } = one;
  const send = (how) => call('POST', at`epg/sources/${name}/refresh` + how);
  // A failed import changes the state of the source as well (held, failure count), so the panel is redrawn.
  const refresh = (how, said) => async () => {
    try {
      const report = await send(how);
      await self.done(`${said} ${outcome(report)}.`);
      if (report.dryRun) self.show(preview(report));
    } catch (error) {
      await self.done('');
      self.show(refusal(error), error.details?.changes ? preview(error.details) : '');
    }
  };
  const held = state === 'held' ? last.doubts : [];
  return [
    el('ul.troubles', [
      held.map((doubt) => notice('warn', t`Held`, doubt)),
      one.error && notice('bad', t`Error`, one.error),
    ]),
    facts([
      [t`State`, [stateOf(one), one.failures ? t` consecutive failures: ${count(one.failures)}` : '']],
      ['URL', el('code', one.url)],
      [t`Interval`, span(one.interval)],
      [t`Priority`, one.priority],
      [t`Time zone`, one.zone],
      [t`Last attempt`, when(one.lastAttempt)],
      [t`Last taken`, when(one.lastSuccess)],
      [t`Next attempt`, when(one.next)],
    ]),
    last && el('h2', t`Last import`),
    last &&
      facts([
        [t`Time`, when(last.at)],
        [t`Plausibility issues`, last.doubts.length && !held.length ? last.doubts.join('; ') : undefined],
        [t`Channels`, count(last.channels)],
        [t`Programmes`, count(last.programmes)],
        [t`Changes`, outcome(last)],
        [t`Skipped rows`, count(last.skipped)],
        [t`Unmapped channels`, ids(last.unmapped, last.unmappedIds)],
        [t`New channels`, ids(last.newChannels, last.newChannelIds)],
      ]),
    el('p.actions', [
      action(t`Import now`, refresh('', t`Imported:`)),
      action(state === 'held' ? t`Show why it is held` : t`Dry run`, refresh('?dryRun', t`Dry run:`)),
      state === 'held' &&
        action(t`Accept`, refresh('?accept', t`Accepted:`), {
          ask: t`Fetch the guide of ${name} and import it despite plausibility issues?`,
        }),
    ]),
    mayChange() && last?.unmapped > 0 && mapping(one, send, self),
    !last && quiet(t`Nothing has been imported from this source yet.`),
  ];
}

/** The total, and the first ids. */
function ids(total, first) {
  if (!total) return t`none`;
  const more = total - first.length;
  const text = first.join(', ');
  return more > 0 ? t`${count(total)}: ${text} and ${count(more)} more` : `${count(total)}: ${text}`;
}

const lineOf = (guide, livestream) => `${JSON.stringify(guide)} = ${JSON.stringify(livestream)}`;

/**
 * Maps channels of the guide that have no livestream. A new livestream is created here; that a channel belongs to an
 * existing one stands in the configuration of the source, for which this makes the line.
 */
function mapping(one, send, self) {
  const { lastImport: last } = one;
  const details = el('details', el('summary', t`Map channels (${count(last.unmapped)})`));
  details.addEventListener('toggle', async () => {
    if (!details.open || details.children.length > 1) return;
    try {
      details.append(await mapper(one, send, self));
    } catch (error) {
      details.append(refusal(error));
    }
  });
  return details;
}

async function mapper({ name, channels, lastImport: last }, send, self) {
  // A dry run has all channels without a livestream, and their names; the last import keeps only the first ids.
  const report = send('?dryRun').catch((error) => error.details ?? {});
  const [{ livestream = [] }, { unmapped = last.unmappedIds, unmappedNames = {} }] = await Promise.all([get('catalog?format=json'), report]);
  const labelled = (id, text) => [id, text && text !== id ? `${text} (${id})` : id];
  const unknown = unmapped.map((id) => labelled(id, unmappedNames[id]));
  const options = livestream.map(({ id, name: text }) => labelled(id, text));
  const chosen = new Map();
  const text = el('pre');
  const saver = action(t`Save as a file`, () => save('channels.toml', 'application/toml', text.textContent), { reads: true });
  saver.firstChild.disabled = true;
  const hint = t`Replace the “channels” line of source “${name}” in playgate.toml by this one, then reload (systemctl reload playgate).`;
  const result = el('div', { hidden: true }, el('p', hint), text);
  const show = () => {
    // With the channels that are mapped already: the line replaces theirs.
    const all = new Map([...Object.entries(channels), ...chosen]);
    const entries = [...all].map(([guide, id]) => lineOf(guide, id)).join(', ');
    result.hidden = saver.firstChild.disabled = false;
    text.textContent = `channels = { ${entries} }`;
  };
  const pick = choice(t`Channel of the guide`, 'guide', unknown);
  const from = choice(t`Channel`, 'guide', unknown);
  const to = choice(t`Livestream`, 'livestream', options);
  // A livestream of the same name is most likely the one that is meant.
  const plain = (name) => name?.trim().toLowerCase();
  const suggest = () => {
    const name = plain(unmappedNames[from.querySelector('select').value]);
    const same = name && livestream.find((one) => plain(one.name) === name);
    if (same) to.querySelector('select').value = same.id;
  };
  from.addEventListener('change', suggest);
  suggest();
  const map = ({ guide, livestream: id }) => {
    chosen.set(guide, id);
    show();
  };
  const create = async ({ guide, id, name: title }) => {
    const text = title || unmappedNames[guide];
    const body = { livestream: [{ id: id || guide, ...(text && { name: text }) }] };
    await upload('catalog/import?merge=true', JSON.stringify(body), 'application/json');
    await self.done(t`Created the livestream ${id || guide}. Import the guide to fill it.`);
  };
  const createAll = async () => {
    const { created } = await send('?createLivestreams');
    await self.done(t`Created ${count(created.length)} livestreams.`);
  };
  return el('div', [
    el('h3', t`Create a livestream for a channel`),
    form(t`Create livestream`, [pick, field(t`Name`, 'name')], create),
    el('p.actions', action(t`Create all ${count(unmapped.length)}`, createAll, { ask: t`Create ${count(unmapped.length)} livestreams and import the guide?`, safe: true })),
    options.length > 0 && [
      el('h3', t`Map a channel to an existing livestream`),
      el('p.quiet', t`The mapping is part of the source in playgate.toml.`),
      form(t`Show the line for playgate.toml`, [from, to], map, { reads: true }),
      result,
      el('p.actions', saver),
    ],
  ]);
}

/** A guide file: dry run, difference, import. */
function importer(self) {
  const run = async ({ file, create }, how) => {
    const options = { ...how, createLivestreams: create ? 'true' : '' };
    return upload(`epg/import${query(options)}`, file);
  };
  const dry = async (values) => {
    const take = async (accept) => {
      await run(values, accept);
      await self.done(t`Imported: ${values.file.name}.`);
    };
    let report;
    try {
      report = await run(values, { dryRun: true });
    } catch (error) {
      if (error.code !== 'IMPORT_HELD') throw error;
      report = error.details;
    }
    const isHeld = report.doubts.length > 0;
    self.show(
      preview(report),
      el('p.actions', action(isHeld ? t`Import despite doubts` : t`Import`, () => take(isHeld ? { accept: true } : {}))),
    );
  };
  const create = el('input', { type: 'checkbox', name: 'create', id: 'create-livestreams' });
  return form(
    t`Preview`,
    [
      field(t`Guide file (XMLTV or JSON, also compressed)`, 'file', { type: 'file', required: true }),
      el('div.field.check', create, el('label', { for: 'create-livestreams' }, t`Create missing livestreams`)),
    ],
    dry,
  );
}

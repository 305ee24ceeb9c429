// EPG sources: state, last import, and imports that are held for approval.
import { at, call, get } from './api.js';
import { badge, count, el, facts, quiet, span, when } from './dom.js';
import { action, panel, refusal } from './panel.js';

const KINDS = { ok: 'good', held: 'warn', failing: 'bad', new: '' };

export const guides = () => [panel('', sources)];

async function sources() {
  const list = await get('epg/sources');
  if (list.length === 0) {
    const [key, command] = ['epg.sources', 'playgate epg import FILE'].map((text) => el('code', text));
    return el('p.quiet', 'No EPG sources. Configure them in ', key, ', or import a file with ', command, '.');
  }
  return list.map(({ name }) => panel(name, (self) => source(name, self)));
}

/** Summarizes what an import changed, or would change. */
const outcome = ({ added, changed, removed, unchanged }) =>
  `${count(added)} added, ${count(changed)} changed, ${count(removed)} removed, ${count(unchanged)} unchanged`;

async function source(name, self) {
  const one = await get(at`epg/sources/${name}`);
  const { state, lastImport: last } = one;
  // A failed import changes the state of the source as well (held, failure count), so the panel is redrawn.
  const refresh = (how, said) => async () => {
    try {
      const report = await call('POST', at`epg/sources/${name}/refresh` + how);
      await self.done(`${said} ${outcome(report)}.`);
    } catch (error) {
      await self.done('');
      self.show(refusal(error));
    }
  };
  return [
    facts([
      ['State', [badge(state, KINDS[state]), one.failures ? ` consecutive failures: ${count(one.failures)}` : '']],
      ['Error', one.error ?? undefined],
      ['URL', el('code', one.url)],
      ['Interval', span(one.interval)],
      ['Priority', one.priority],
      ['Last attempt', when(one.lastAttempt)],
      ['Last success', when(one.lastSuccess)],
      ['Next attempt', when(one.next)],
    ]),
    last && el('h3', 'Last import'),
    last &&
      facts([
        ['Time', when(last.at)],
        ['Plausibility issues', last.doubts.length ? last.doubts.join('; ') : undefined],
        ['Channels', count(last.channels)],
        ['Programmes', count(last.programmes)],
        ['Changes', outcome(last)],
        ['Skipped rows', count(last.skipped)],
        ['Unmapped channels', ids(last.unmapped, last.unmappedIds)],
        ['New channels', ids(last.newChannels, last.newChannelIds)],
      ]),
    el('p.actions', [
      action('Import now', refresh('', 'Imported:')),
      action('Dry run', refresh('?dryRun', 'Dry run:')),
      state === 'held' &&
        action('Accept', refresh('?accept', 'Accepted:'), {
          ask: `Fetch the guide of ${name} and import it despite plausibility issues?`,
        }),
    ]),
    !last && quiet('Nothing has been imported from this source yet.'),
  ];
}

/** The total, and the first ids. */
const ids = (total, first) =>
  total ? `${count(total)}: ${[...first, ...(total > first.length ? ['…'] : [])].join(', ')}` : 'none';

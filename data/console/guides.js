// The sources of guides: how they fare, what the last guide of each was, and what waits for somebody.
import { at, call, get } from './api.js';
import { badge, count, el, facts, quiet, span, when } from './dom.js';
import { action, panel, refusal } from './panel.js';

const KINDS = { ok: 'good', held: 'warn', failing: 'bad', new: '' };

export const guides = () => [panel('', sources)];

async function sources() {
  const list = await get('epg/sources');
  if (list.length === 0) {
    const [key, command] = ['epg.sources', 'playgate epg import FILE'].map((text) => el('code', text));
    return el('p.quiet', 'No sources: name some in ', key, ', or import a file with ', command, '.');
  }
  return list.map(({ name }) => panel(name, (self) => source(name, self)));
}

/** What an import did, or would do, in a sentence. */
const outcome = ({ added, changed, removed, unchanged }) =>
  `${count(added)} added, ${count(changed)} changed, ${count(removed)} removed, ${count(unchanged)} as before`;

async function source(name, self) {
  const one = await get(at`epg/sources/${name}`);
  const { state, lastImport: last } = one;
  // A refusal too is news of the source: that its guide is held, or how often it has failed.
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
      ['State', [badge(state, KINDS[state]), one.failures ? ` failures in a row: ${count(one.failures)}` : '']],
      ['Error', one.error ?? undefined],
      ['Address', el('code', one.url)],
      ['Asked every', span(one.interval)],
      ['Priority', one.priority],
      ['Last asked', when(one.lastAttempt)],
      ['Last taken', when(one.lastSuccess)],
      ['Next', when(one.next)],
    ]),
    last && el('h3', 'Its last guide'),
    last &&
      facts([
        ['Read', when(last.at)],
        ['Doubts', last.doubts.length ? last.doubts.join('; ') : undefined],
        ['Channels', count(last.channels)],
        ['Programmes', count(last.programmes)],
        ['Outcome', outcome(last)],
        ['Rows not taken', count(last.skipped)],
        ['Not in the catalogue', ids(last.unmapped, last.unmappedIds)],
        ['New channels', ids(last.newChannels, last.newChannelIds)],
      ]),
    el('p.actions', [
      action('Fetch now', refresh('', 'Taken:')),
      action('Try without taking', refresh('?dryRun', 'It would be:')),
      state === 'held' &&
        action('Accept', refresh('?accept', 'Accepted:'), {
          ask: `Fetch ${name} and take its guide as it is, however implausible it looks?`,
        }),
    ]),
    !last && quiet('No guide of this source has been read yet.'),
  ];
}

/** How many there are, and the first of them. */
const ids = (total, first) =>
  total ? `${count(total)}: ${[...first, ...(total > first.length ? ['…'] : [])].join(', ')}` : 'none';

// Imports of catalogue files: a dry run first, its difference, and then the import.
import { query, upload } from './api.js';
import { badge, choice, count, el, field } from './dom.js';
import { t } from './i18n.js';
import { list } from './list.js';
import { action, form, mayChange, panel } from './panel.js';

const KINDS = { added: 'good', changed: 'warn', removed: 'bad' };

/** The changes of a report, made or planned. */
export function differences({ added, changed, removed, unchanged, doubts, changes }) {
  const names = { added: t`added`, changed: t`changed`, removed: t`removed` };
  return [
    el('p', t`${count(added)} added, ${count(changed)} changed, ${count(removed)} removed, ${count(unchanged)} unchanged`),
    doubts.length > 0 && el('div.refusal', el('strong', t`This import looks wrong:`), el('ul', doubts.map((one) => el('li', one)))),
    changes.length > 0 &&
      list('', () => changes, {
        csv: 'difference',
        matches: ({ id, text }) => [id, text],
        filters: [
          { name: 'change', label: t`Change`, options: Object.entries(names), test: ({ change }, value) => change === value },
        ],
        columns: [
          { head: t`Change`, id: 'change', value: ({ change }) => change, cell: ({ change }) => badge(names[change], KINDS[change]) },
          { head: t`Entry`, id: 'id', value: ({ kind, id }) => `${kind} ${id}`, cell: ({ kind, id }) => [`${kind} `, el('code', id)] },
          { head: t`Members`, cell: members, csv: ({ text }) => text },
        ],
      }),
  ];
}

const members = ({ members: all = [] }) =>
  all.length > 0 &&
  el(
    'div.diff',
    all.map(({ member, before, after }) => el('div', `${member}: `, el('del', before), ' → ', el('ins', after))),
  );

/** Shows in `place` what a file would change, with a button that takes it. */
export async function proposal(place, path, file, options, done) {
  const report = await upload(path + query({ ...options, dryRun: true }), file, 'application/json');
  const nothing = report.changes.length === 0;
  const take = async () => {
    // The operator has seen the doubts.
    await upload(path + query({ ...options, accept: report.doubts.length > 0 || '' }), file, 'application/json');
    done();
  };
  const cancel = () => place.replaceChildren();
  place.querySelector(':scope > .panel')?.remove();
  const shown = panel(t`What changes`, () => [
    nothing ? el('p', t`Nothing changes.`) : differences(report),
    el('p.actions', !nothing && action(t`Take these changes`, take, { main: true }), action(t`Cancel`, cancel, { reads: true })),
  ]);
  place.append(shown);
  shown.scrollIntoView({ block: 'nearest' });
}

/** The form for a file. */
export const importer = () =>
  panel(t`Import a file`, (self) => {
    const place = el('div');
    const preview = async ({ file, mode }) => {
      place.replaceChildren();
      const done = () => self.done(t`The catalogue was imported. The replaced one is a previous version.`);
      await proposal(place, 'catalog/import', await file.text(), { merge: mode === 'merge' || '' }, done);
    };
    return [
      el('p.quiet', t`Nothing changes before you have seen the difference. Content keys stay if the file names them without their value.`),
      mayChange()
        ? form(
            t`Preview`,
            [
              field(t`Catalogue file (TOML or JSON)`, 'file', { type: 'file', required: true, accept: '.toml,.json' }),
              choice(t`Mode`, 'mode', [
                ['replace', t`Replace the catalogue`],
                ['merge', t`Add and change only`],
              ]),
            ],
            preview,
          )
        : el('p', t`Your role may not import.`),
      place,
    ];
  });

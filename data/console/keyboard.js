// Keys: `/` for the search of the page, `g` and a letter for a page, `?` for the list of both.
import { el } from './dom.js';
import { t } from './i18n.js';

const WITHIN_MS = 1_500; // between `g` and the letter

let groups = [];
let went = 0;

/** Sets the pages that can be reached: groups of [path, name, roles, render, key]. */
export function keys(there) {
  groups = there;
}

const help = document.getElementById('keys');

function showHelp() {
  const key = (...names) => names.map((name) => [el('kbd', name), ' ']);
  const line = (names, text) => el('div', el('dt', key(...names)), el('dd', text));
  help.querySelector('div').replaceChildren(
    el('p', el('a', { href: '../docs/support/' }, t`Tasks of support, step by step`), ' · ', el('a', { href: '../docs/operating/' }, t`Operating`)),
    el('h2', { id: 'keys-title' }, t`Keyboard`),
    el('dl.keys', line(['/'], t`Search on this page`), line(['?'], t`This list`), line(['Esc'], t`Close, leave a field`)),
    ...groups.map(([name, pages]) => el('section', el('h3', name), el('dl.keys', pages.map(([, page, , , letter]) => line(['g', letter], page))))),
  );
  help.querySelector('button').textContent = t`Close`;
  help.showModal();
}

/** The first search of the page; without one, that of the users. */
function search() {
  const input = document.querySelector('#main input[type=search]');
  if (input) return input.focus();
  if (groups.some(([, pages]) => pages.some(([path]) => path === 'users'))) location.hash = '#/users';
}

document.addEventListener('keydown', (event) => {
  const { key, target } = event;
  const types = target.closest('input:not([type=checkbox]), textarea, select, [contenteditable]');
  if (types && key === 'Escape') return types.blur();
  const other = event.ctrlKey || event.metaKey || event.altKey || types;
  if (other || !groups.length || document.getElementById('main').hidden || document.querySelector('dialog[open]')) return;
  const page = Date.now() - went < WITHIN_MS && groups.flatMap(([, pages]) => pages).find(([, , , , letter]) => letter === key);
  went = key === 'g' ? Date.now() : 0;
  if (page) location.hash = `#/${page[0]}`;
  else if (key === '/') search();
  else if (key === '?') showHelp();
  else return;
  event.preventDefault();
});

document.getElementById('show-keys').addEventListener('click', showHelp);

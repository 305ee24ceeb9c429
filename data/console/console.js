// Who is logged in, and which page is shown. A page has an address below `#/`, so that it can be kept as a bookmark.
import { Refusal, get, session, token } from './api.js';
import { el } from './dom.js';
import { action, readsOnly, refusal } from './panel.js';
import { access } from './access.js';
import { audit } from './audit.js';
import { catalog } from './catalog.js';
import { guides } from './guides.js';
import { mail } from './mail.js';
import { overview } from './overview.js';
import { quality } from './quality.js';
import { broadcast, schedule } from './schedule.js';
import { sessions } from './sessions.js';
import { store } from './store.js';
import { users } from './users.js';
import { why } from './why.js';

const ALL = ['admin', 'content', 'agent', 'observer'];
const CONTENT = ['admin', 'content', 'observer'];
const SUPPORT = ['admin', 'agent', 'observer'];
const ADMIN = ['admin', 'observer'];

// The first part of the address, the name, whose role reaches there, and what shows it. A page without a name is come to
// from another. Who goes to one that their role does not reach is told so by the interface.
const PAGES = [
  ['overview', 'Overview', ALL, overview],
  ['why', 'Why?', SUPPORT, why],
  ['users', 'Users', SUPPORT, users],
  ['sessions', 'Playing now', SUPPORT, sessions],
  ['mail', 'Mail', SUPPORT, mail],
  ['schedule', 'Schedule', ALL, schedule],
  ['broadcast', '', CONTENT, broadcast],
  ['catalog', 'Catalogue', CONTENT, catalog],
  ['guides', 'Guides', CONTENT, guides],
  ['quality', 'Quality', CONTENT, quality],
  ['store', 'Backups', ADMIN, store],
  ['audit', 'Audit', ADMIN, audit],
  ['access', 'Access', ADMIN, access],
];

const part = (id) => document.getElementById(id);
let about = null;

// -- Who is logged in

function showLogIn(why) {
  about = null;
  token.forget();
  part('bar').hidden = part('main').hidden = true;
  part('main').replaceChildren();
  part('log-in').hidden = false;
  part('log-in-refusal').hidden = !why;
  part('log-in-refusal').textContent = why ?? '';
  document.title = 'Log in · Playgate';
  part('token').focus();
}

async function enter() {
  about = await get('about');
  readsOnly(about.role === 'observer');
  part('log-in').hidden = true;
  part('token').value = '';
  part('bar').hidden = part('main').hidden = false;
  document.body.dataset.environment = about.environment;
  part('environment').textContent = about.environment;
  part('who').textContent = `${about.name ?? 'operator'} · ${about.role}`;
  const reached = PAGES.filter(([, name, roles]) => name && roles.includes(about.role));
  part('nav').replaceChildren(...reached.map(([path, name]) => el('a', { href: `#/${path}` }, name)));
  show();
}

part('log-in').addEventListener('submit', async (event) => {
  event.preventDefault();
  const sent = part('token').value.trim();
  // A header takes no other characters; the service would say the same.
  if (!/^[\x21-\x7e]+$/.test(sent)) return showLogIn('This is not an operator token.');
  token.keep(sent);
  try {
    await enter();
  } catch (error) {
    const invalid = error.status === 401;
    showLogIn(invalid ? 'The service does not know this token: it is mistyped or revoked.' : error.message);
  }
});

part('log-out').addEventListener('click', () => showLogIn());

session.addEventListener('refused', () => {
  if (about) showLogIn('The token is no longer valid: it has been revoked. Log in with another one.');
});

// -- Which page is shown

/** `#/users/x%2Fy?partner=z` -> ['users', 'x/y'] and its query. */
function place() {
  const [path, search] = location.hash.replace(/^#\/?/, '').split('?');
  try {
    return [path.split('/').map(decodeURIComponent), new URLSearchParams(search)];
  } catch {
    return [['?'], new URLSearchParams()];
  }
}

function show() {
  if (!about) return;
  const [[first, ...rest], search] = place();
  const page = PAGES.find(([path]) => path === (first || 'overview'));
  const [path, name, , contents] = page ?? ['', 'No such page', ALL, () => [el('p', 'There is no such page here.')]];
  for (const anchor of part('nav').children) {
    anchor.removeAttribute('aria-current');
    if (anchor.hash !== `#/${path}`) continue;
    anchor.setAttribute('aria-current', 'page');
    anchor.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }
  const title = name || 'Broadcast';
  document.title = `${title} · Playgate ${about.environment}`;
  const heading = el('h1', { tabindex: '-1' }, title);
  part('main').replaceChildren(heading, ...contents({ rest, search, about }));
  heading.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

window.addEventListener('hashchange', show);

/** The token of this tab, if it has one from before it was loaded anew. */
async function begin() {
  if (!token.get()) return showLogIn();
  try {
    await enter();
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return showLogIn('Please log in again.');
    part('main').hidden = false;
    part('main').replaceChildren(refusal(error), action('Try again', begin, { reads: true }));
  }
}

begin();

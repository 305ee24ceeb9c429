// Login and page routing. Each page has a URL fragment below `#/`, so it can be bookmarked.
import { Refusal, get, preference, session, token } from './api.js';
import { choice, el } from './dom.js';
import { LANGUAGES, speak, spoken, t } from './i18n.js';
import { icon } from './icons.js';
import { keys } from './keyboard.js';
import { action, panel, readsOnly, refusal } from './panel.js';
import { access } from './access.js';
import { audit } from './audit.js';
import { broadcast } from './broadcast.js';
import { catalog } from './catalog.js';
import { fleet } from './fleet.js';
import { guides } from './guides.js';
import { lab } from './lab.js';
import { mail } from './mail.js';
import { overview } from './overview.js';
import { quality } from './quality.js';
import { requests } from './requests.js';
import { schedule } from './schedule.js';
import { sessions } from './sessions.js';
import { store } from './store.js';
import { users } from './users.js';
import { why } from './why.js';
import { zoneChoice } from './zones.js';

const ALL = ['admin', 'content', 'agent', 'observer'];
const CONTENT = ['admin', 'content', 'observer'];
const SUPPORT = ['admin', 'agent', 'observer'];
const ADMIN = ['admin', 'observer'];

// The groups of the menu. A page: first path segment, title, roles that see it in the menu, render function, and the key
// that opens it after `g`. A page without a title is reached from another page, whose entry in the menu it keeps. The
// server enforces roles: a page that the role does not allow shows the server's error.
const GROUPS = () => [
  [
    t`Now`,
    ['overview', t`Overview`, ALL, overview, 'o'],
    ['sessions', t`Playback sessions`, SUPPORT, sessions, 'p'],
    ['requests', t`Requests`, SUPPORT, requests, 'r'],
    ['quality', t`Quality`, CONTENT, quality, 'q'],
  ],
  [
    t`Users`,
    ['users', t`Users`, SUPPORT, users, 'u'],
    ['why', t`Entitlement check`, SUPPORT, why, 'c'],
    ['mail', t`Mail`, SUPPORT, mail, 'm'],
  ],
  [
    t`Content`,
    ['schedule', t`Schedule`, ALL, schedule, 's'],
    ['broadcast', '', CONTENT, broadcast, 'schedule'],
    ['catalog', t`Catalogue`, CONTENT, catalog, 'k'],
    ['guides', t`EPG sources`, CONTENT, guides, 'e'],
  ],
  [
    t`System`,
    ['access', t`Partners, operators`, ADMIN, access, 'a'],
    ['lab', t`Lab`, ADMIN, lab, 'l'],
    ['store', t`Backups`, ADMIN, store, 'b'],
    ['fleet', t`Fleet`, ADMIN, fleet, 'f'],
    ['audit', t`Audit log`, ADMIN, audit, 'h'],
  ],
];

const part = (id) => document.getElementById(id);
let about = null;

/** Removes what the page shows until its scripts work. */
const loaded = () => part('loading')?.remove();

// -- Login

function showLogIn(why) {
  about = null;
  loaded();
  token.forget();
  part('bar').hidden = part('main').hidden = true;
  part('main').replaceChildren();
  part('log-in').hidden = false;
  part('log-in').querySelector('label').textContent = t`Operator token`;
  part('log-in').querySelector('button').textContent = t`Log in`;
  const note = t`The token is kept in this browser tab only, until you log out or close the tab. To create a token:`;
  part('token-note').replaceChildren(note, ' ', el('code', 'playgate operator add NAME --role admin'));
  part('log-in-refusal').hidden = !why;
  part('log-in-refusal').textContent = why ?? '';
  document.title = t`Log in · Playgate`;
  part('token').focus();
}

async function enter() {
  about = await get('about');
  arrange();
}

/** Writes the bar and the page, in the chosen language and time zone. */
function arrange() {
  readsOnly(about.role === 'observer');
  loaded();
  part('log-in').hidden = true;
  part('token').value = '';
  part('bar').hidden = part('main').hidden = false;
  document.body.dataset.environment = about.environment;
  part('environment').textContent = about.environment;
  part('who').replaceChildren(el('strong', about.name ?? t`operator`), ` · ${about.role}`);
  part('log-out').textContent = t`Log out`;
  part('show-keys').ariaLabel = part('show-keys').title = t`Keyboard`;
  part('nav').ariaLabel = t`Pages`;
  part('choices').replaceChildren(languageChoice(), zoneChoice());
  const production = about.environment === 'production';
  const has = ([path, name, roles]) => name && roles.includes(about.role) && !(production && path === 'lab');
  const groups = GROUPS().map(([name, ...pages]) => [name, pages.filter(has)]);
  const there = groups.filter(([, pages]) => pages.length);
  part('nav').replaceChildren(...there.map(([name, pages]) => el('div.group', el('h2', name), pages.map(entry))));
  keys(there);
  show();
}

const entry = ([path, name]) => el('a', { href: `#/${path}` }, icon(path), name);

part('log-in').addEventListener('submit', async (event) => {
  event.preventDefault();
  // As pasted: in quotes, behind `Bearer`, with line breaks of a terminal or invisible characters of a page.
  const pasted = part('token').value.replace(/[\s\u00ad\u200b-\u200f\u2060\ufeff]/g, '');
  const sent = pasted.match(/pgo_[\w-]{43}(?![\w-])/)?.[0] ?? pasted;
  // `fetch` throws on other characters in a header.
  if (!/^[\x21-\x7e]+$/.test(sent)) return showLogIn(t`This is not a valid operator token.`);
  token.keep(sent);
  try {
    await enter();
  } catch (error) {
    const invalid = error.status === 401;
    showLogIn(invalid ? t`Unknown token: it is mistyped or was revoked.` : error.message);
  }
});

part('log-out').addEventListener('click', () => showLogIn());

session.addEventListener('refused', () => {
  if (about) showLogIn(t`This token is no longer valid: it was revoked. Log in with another token.`);
});

// -- Routing

/** Parses the fragment: `#/users/x%2Fy?partner=z` -> ['users', 'x/y'] and the query. */
function place() {
  const [path, search] = location.hash.replace(/^#\/?/, '').split('?');
  try {
    return [path.split('/').map(decodeURIComponent), new URLSearchParams(search)];
  } catch {
    return [['?'], new URLSearchParams()];
  }
}

/** Shows why there is no page, and repeats `work` on demand. */
function fail(error, work) {
  loaded();
  part('main').hidden = false;
  part('main').replaceChildren(refusal(error), action(t`Try again`, work, { reads: true }));
}

function show() {
  if (!about) return;
  try {
    draw();
  } catch (error) {
    fail(error, show);
  }
}

function draw() {
  const [[first, ...rest], search] = place();
  const pages = GROUPS().flatMap(([, ...all]) => all);
  const page = pages.find(([path]) => path === (first || 'overview'));
  const missing = () => [panel('', () => t`The console has no page at this address.`)];
  const [path, name, , contents, key] = page ?? ['', t`Page not found`, ALL, missing];
  const current = `#/${name ? path : key}`;
  for (const anchor of part('nav').querySelectorAll('a')) {
    if (anchor.hash === current) anchor.setAttribute('aria-current', 'page');
    else anchor.removeAttribute('aria-current');
  }
  showCurrent();
  openMenu(false);
  const entry = part('nav').querySelector('[aria-current]')?.textContent;
  part('menu').textContent = t`Menu: ${entry ?? name}`;
  const heading = el('h1', { tabindex: '-1' });
  const [way, side] = [el('nav.back', { 'aria-label': t`Page above` }), el('div.beside')];
  /** Heads the page by the thing that it is about; `beside` stands next to it, `back` leads to the page above. */
  const head = (title, { beside = [], back } = {}) => {
    heading.textContent = title;
    document.title = `${title} · Playgate ${about.environment}`;
    side.replaceChildren(...[beside].flat(Infinity).filter(Boolean));
    way.hidden = !back;
    if (back) way.replaceChildren(el('a', { href: back[1] }, `← ${back[0]}`));
  };
  head(name);
  part('main').replaceChildren(el('header.top', way, heading, side), ...[contents({ rest, search, about, head })].flat(Infinity).filter(Boolean));
  heading.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

window.addEventListener('hashchange', show);

// -- Navigation

const showCurrent = () => part('nav').querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });

/** On narrow screens a button shows and hides the pages. */
function openMenu(open) {
  part('bar').classList.toggle('open', open);
  part('menu').ariaExpanded = String(open);
}

part('menu').addEventListener('click', () => {
  openMenu(part('menu').ariaExpanded !== 'true');
  showCurrent();
});
part('bar').addEventListener('keydown', ({ key }) => {
  if (key !== 'Escape' || part('menu').ariaExpanded !== 'true') return;
  openMenu(false);
  part('menu').focus();
});
window.addEventListener('resize', showCurrent);

/** Resumes with the token that the tab kept across a reload, or shows the login form. */
async function begin() {
  if (!token.get()) return showLogIn();
  try {
    await enter();
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return showLogIn(t`Please log in again.`);
    fail(error, begin);
  }
}

// -- Language and time zone

function languageChoice() {
  const element = choice(t`Language`, 'language', LANGUAGES, spoken());
  element.querySelector('select').addEventListener('change', ({ target }) => {
    preference.set('language', target.value);
    dispatchEvent(new Event('preferences'));
  });
  return element;
}

const settle = () => speak(preference.get('language'), preference.get('zone'));

window.addEventListener('preferences', () => {
  settle();
  // At once: what is shown must not lag behind the choice.
  if (about) arrange();
  else begin();
});

settle();
begin();

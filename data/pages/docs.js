
// Search, the language of the examples, and the mark of the section that is being read. Without this script the page has
// all its text, with examples for curl.
const root = document.documentElement;
const [bar, search, language, menu, found, contents] = ['bar', 'search', 'language', 'menu', 'found', 'contents'].map((id) => document.getElementById(id));
const wide = matchMedia('(min-width: 64rem)');
const links = [...contents.querySelectorAll('a')];
const groups = [...contents.querySelectorAll('details')];
// Guides are pages of their own, found by their titles.
const target = (link) => document.getElementById(link.hash.slice(1)) ?? link;
bar.hidden = false;

const fold = () => { menu.open = wide.matches || search.value.trim() !== ''; };
wide.addEventListener('change', fold);
fold();
contents.addEventListener('click', (event) => {
  if (event.target.closest('a') && !wide.matches) menu.open = false;
});

// The texts are read at the first search: reading them all delays the page.
let texts;
function find() {
  texts ??= new Map(links.map((link) => [link, `${link.textContent} ${target(link).closest('section, tr')?.textContent ?? ''}`.toLowerCase()]));
  // At the beginning of a word: `stream` is not to find every livestream.
  const words = (search.value.toLowerCase().match(/\S+/g) ?? []).map((word) => new RegExp(`(?<![a-z0-9])${word.replace(/[^\w\s]/g, '\\$&')}`));
  const hits = links.filter((link) => {
    const hit = words.every((word) => word.test(texts.get(link)));
    link.parentElement.hidden = !hit && !link.parentElement.querySelector('ul');
    return hit;
  });
  for (const list of contents.querySelectorAll('li:has(ul)')) list.hidden = !list.querySelector('ul > li:not([hidden])');
  for (const group of groups) group.open = words.length > 0;
  found.textContent = words.length === 0 ? '' : `${hits.length} found`;
  fold();
}
search.addEventListener('input', find);
search.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') { search.value = ''; find(); search.blur(); }
  if (event.key === 'Enter') contents.querySelector('ul li:not([hidden]):not(:has(ul)) > a, li:not([hidden]) > a')?.click();
});
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.target.matches('input, select, textarea')) return;
  event.preventDefault();
  search.focus();
});

const speak = (name) => { root.dataset.language = language.value = name; };
try { speak(localStorage.getItem('docs-language') ?? 'curl'); } catch { speak('curl'); }
if (!language.value) speak('curl');
language.addEventListener('change', () => {
  // The text above may change its height; what is being read must stay where it is.
  const read = [...document.querySelectorAll('main section')].find((section) => section.getBoundingClientRect().bottom > 80);
  const before = read?.getBoundingClientRect().top;
  speak(language.value);
  if (read) scrollBy(0, read.getBoundingClientRect().top - before);
  try { localStorage.setItem('docs-language', language.value); } catch { /* storage may be forbidden */ }
});

const byId = new Map(links.map((link) => [link.hash.slice(1), link]));
const reading = new IntersectionObserver((entries) => {
  const link = byId.get(entries.find((entry) => entry.isIntersecting)?.target.id);
  if (!link) return;
  for (const marked of contents.querySelectorAll('[aria-current]')) marked.removeAttribute('aria-current');
  link.setAttribute('aria-current', 'true');
  if (wide.matches && !search.value) link.scrollIntoView({ block: 'nearest' });
}, { rootMargin: '-10% 0px -80%' });
for (const section of document.querySelectorAll('main section')) reading.observe(section);

// Examples with the reader's token, and calls that are tried. Both need the token of a lab partner: no other belongs into a page.
const access = document.getElementById('access');
if (access) {
  const [token, state, forget] = ['token', 'access-state', 'forget'].map((id) => document.getElementById(id));
  const tries = [...document.querySelectorAll('button.try')];
  const examples = [...document.querySelectorAll('pre[data-language]')].map((pre) => [pre, pre.textContent]);
  const header = tries.flatMap((button) => Object.entries(JSON.parse(button.dataset.call).headers)).find(([, value]) => value === 'PARTNER_TOKEN')[0];
  const known = {};
  const explained = state.textContent;
  // Relative to the page, which a proxy may serve below a path.
  const send = ({ method, target, headers, body }) => fetch(`.${target}`, { method, headers, body, cache: 'no-store', referrerPolicy: 'no-referrer' });
  const store = (change) => { try { change(sessionStorage); } catch { /* storage may be forbidden */ } };

  const filled = (text) => Object.entries(known).reduce((text, [name, value]) => text
    .replaceAll(new RegExp(`\\$?\\{${name}\\}|\\$${name}`, 'g'), () => value)
    .replaceAll(new RegExp(`\\b${name}\\b`, 'g'), () => JSON.stringify(value)), text);
  function fill() {
    for (const [pre, text] of examples) pre.textContent = filled(text);
    for (const button of tries) button.hidden = !known.PARTNER_TOKEN;
    forget.hidden = !known.PARTNER_TOKEN;
  }

  async function use(given) {
    let answer;
    try {
      answer = await send({ method: 'GET', target: '/api/lab/v1/clock', headers: { [header]: given } });
    } catch {
      state.textContent = 'The server does not answer.';
      return;
    }
    if (!answer.ok) {
      state.textContent = answer.status === 401 ? 'The server does not know this token.'
        : 'This is not the token of a lab partner on a server that has a lab. Tokens of other partners are not entered here.';
      return;
    }
    known.PARTNER_TOKEN = given;
    token.value = given;
    store((tab) => tab.setItem('docs-token', given));
    state.textContent = 'The examples have this token, and each call has a button to try it. Log in with one, and calls for a user have its token too.';
    fill();
  }

  access.hidden = false;
  access.addEventListener('submit', (event) => {
    event.preventDefault();
    if (token.value.trim()) use(token.value.trim());
  });
  forget.addEventListener('click', () => {
    for (const name of Object.keys(known)) delete known[name];
    store((tab) => tab.removeItem('docs-token'));
    token.value = '';
    state.textContent = explained;
    fill();
  });
  store((tab) => { const kept = tab.getItem('docs-token'); if (kept) use(kept); });

  const made = (name, properties) => Object.assign(document.createElement(name), properties);
  const labelled = (text, field) => { const label = made('label', { textContent: text }); label.append(field); return label; };
  async function show(call, target, body, answered) {
    const headers = Object.fromEntries(Object.entries(call.headers).map(([name, value]) => [name, Object.entries(known).reduce((value, [name, token]) => value.replace(name, () => token), value)]));
    if (body) headers['Content-Type'] = 'application/json';
    answered.textContent = '…';
    try {
      const answer = await send({ method: call.method, target: target.value, headers, body: body?.value });
      const text = await answer.text();
      let shown = text;
      try {
        const value = JSON.parse(text);
        shown = JSON.stringify(value, null, 2);
        if (/^pgu_/.test(value.token)) { known.USER_TOKEN = value.token; fill(); }
      } catch { /* not JSON */ }
      answered.textContent = `${answer.status} ${answer.statusText}\n${shown.slice(0, 20_000)}`;
    } catch (error) {
      answered.textContent = String(error);
    }
  }
  for (const button of tries) {
    button.addEventListener('click', () => {
      const call = JSON.parse(button.dataset.call);
      const form = made('form', { className: 'trial' });
      const target = made('input', { value: call.target, spellcheck: false });
      const body = call.body === null ? null : made('textarea', { value: JSON.stringify(call.body, null, 2), rows: 5, spellcheck: false });
      const answered = made('pre', { role: 'status', tabIndex: 0 });
      form.append(labelled(call.method, target), ...(body ? [labelled('Body', body)] : []), made('button', { textContent: 'Send' }), answered);
      form.addEventListener('submit', (event) => { event.preventDefault(); show(call, target, body, answered); });
      button.replaceWith(form);
      target.focus();
    });
  }
}

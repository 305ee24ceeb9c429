
// Search, the language of the examples, and the mark of the section that is being read. Without this script the page has
// all its text, with examples for curl.
const root = document.documentElement;
const [bar, search, language, menu, found, contents] = ['bar', 'search', 'language', 'menu', 'found', 'contents'].map((id) => document.getElementById(id));
const wide = matchMedia('(min-width: 64rem)');
const links = [...contents.querySelectorAll('a')];
const groups = [...contents.querySelectorAll('details')];
const target = (link) => document.getElementById(link.hash.slice(1));
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
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.target.matches('input, select')) return;
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

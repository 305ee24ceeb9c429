// Panels, buttons and forms. Errors and confirmations appear next to the control that caused them.
import { el, empty, quiet } from './dom.js';
import { clockSeconds, t, zoneShort } from './i18n.js';

/** A small screen. */
export const PHONE = matchMedia('(max-width: 40rem)');

/** Renders an error. */
export function refusal(error) {
  const { message, code, status, details, requestId } = error;
  if (!('status' in error)) console.error(error);
  const sentence = `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
  const known = { ROLE_NOT_ALLOWED: t`Your role does not allow this; ask an administrator.` }[code];
  const problems = (details?.problems ?? []).map(({ line, message: what }) => (line ? t`line ${line}: ${what}` : what));
  const doubts = details?.doubts ?? [];
  const list = [...problems, ...doubts].map((text) => el('li', text));
  return el(
    'div.refusal',
    { role: 'alert' },
    known && el('strong', known, ' '),
    sentence,
    code && el('small', { title: requestId ? t`request ${requestId}` : undefined }, ` ${code} ${status}`),
    list.length > 0 && el('ul', list),
  );
}

/**
 * A section with a title. `draw(panel)` returns its contents or a promise of them. `panel.say` sets the status line,
 * `panel.show` the result area, and `panel.done` redraws the panel and then sets the status line. `every` is the
 * interval of automatic redraws in seconds, which the panel shows. `controls` stay where they are when it is redrawn.
 * `bare` draws no frame: its contents have their own.
 */
export function panel(title, draw, { every, controls, bare } = {}) {
  const status = el('p.status', { role: 'status', tabindex: '-1' });
  let body = el('div');
  const result = el('div');
  const fresh = el('p.fresh', { hidden: !every });
  const element = el(`section.panel${bare ? '.bare' : ''}`, title && el('h2', title), controls, status, result, body, fresh);
  const self = { say, show, done, reload };
  let turn = 0;

  async function reload() {
    const mine = (turn += 1);
    element.setAttribute('aria-busy', 'true');
    let contents;
    try {
      contents = await draw(self);
    } catch (error) {
      contents = refusal(error);
    }
    // A later reload has started: its result wins, in whichever order they finish.
    if (mine !== turn) return;
    const drawn = el('div', contents);
    body.replaceWith(drawn);
    body = drawn;
    element.removeAttribute('aria-busy');
    if (!every) return;
    const now = Date.now() / 1000;
    fresh.replaceChildren(el('span.dot'), quiet(t`Updated ${clockSeconds(now)} ${zoneShort(now)}, every ${every} s`));
    setTimeout(again, every * 1000, mine);
  }

  /** Redraws, but not while its contents have the focus, a dialog is open or the tab is hidden. */
  function again(mine) {
    if (mine !== turn || !element.isConnected) return;
    const busy = body.contains(document.activeElement) || document.querySelector('dialog[open]');
    if (busy || document.hidden) setTimeout(again, every * 1000, mine);
    else reload();
  }

  function say(text) {
    status.textContent = text;
  }

  function show(...contents) {
    result.replaceChildren(...contents);
  }

  async function done(text) {
    show();
    await reload();
    say(text);
    // The focused control may have been replaced: keep the keyboard focus in this panel.
    if (text && document.activeElement === document.body) status.focus();
  }

  if (title) element.setAttribute('aria-label', title);
  reload();
  return element;
}

/**
 * The panels of a page about one thing: `load` fetches it and `draw` makes them. That it does not exist is said once, in
 * place of them all.
 */
export function subject(load, draw) {
  const place = el('section.panel', { 'aria-busy': 'true' });
  load().then(
    (thing) => place.replaceWith(...draw(thing)),
    (error) => {
      place.removeAttribute('aria-busy');
      place.replaceChildren(error.status === 404 ? empty(refusal(error)) : refusal(error));
    },
  );
  return place;
}

/** Shows the confirmation dialog; resolves to whether it was confirmed. */
export function confirmed(question, verb, safe) {
  const dialog = document.getElementById('question');
  dialog.querySelector('p').textContent = question;
  const yes = dialog.querySelector('[value=yes]');
  yes.textContent = verb;
  yes.className = safe ? 'main' : 'danger';
  dialog.querySelector('[value=no]').textContent = t`Cancel`;
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((answer) => {
    dialog.addEventListener('close', () => answer(dialog.returnValue === 'yes'), { once: true });
  });
}

/** Runs `work` with the button disabled; an error is shown after `place`. */
async function attempt(button, place, work) {
  place.parentNode.querySelectorAll(':scope > .refusal').forEach((old) => old.remove());
  button.disabled = true;
  try {
    await work();
  } catch (error) {
    place.after(refusal(error));
  } finally {
    button.disabled = false;
  }
}

// For observers, controls that would change something are not rendered. The server enforces it.
let readOnly = false;

/** Sets whether the operator has read-only access. */
export function readsOnly(only) {
  readOnly = only;
}

/** Whether the operator may make changes. */
export const mayChange = () => !readOnly;

/**
 * A button. `ask` is the confirmation question of a destructive action, or a function that fetches it; the dialog's
 * button has the same label. `safe` marks an action that asks and destroys nothing. `reads` marks one that changes
 * nothing, which observers see too. `main` marks the button that a page leads to, `danger` one that is asked about by other means.
 */
export function action(verb, work, { ask, label, reads, safe, main, danger } = {}) {
  if (readOnly && !reads) return false;
  const button = el(`button${danger || (ask && !safe) ? '.danger' : main ? '.main' : ''}`, { type: 'button', 'aria-label': label }, verb);
  button.addEventListener('click', async () => {
    try {
      const question = typeof ask === 'function' ? await ask() : ask;
      if (question && !(await confirmed(question, verb, safe))) return;
    } catch (error) {
      return attempt(button, button, () => Promise.reject(error));
    }
    await attempt(button, button, work);
  });
  return el('span.action', button);
}

/**
 * A one-line form. `work` gets the trimmed values of the fields by name. `reads` marks a form that changes nothing,
 * which observers see too; `stacked` one with more fields than fit in a line, `fill` one whose fields share the line, `plain` one
 * that is not what the page is for.
 */
export function form(verb, contents, work, { reads, stacked, fill, plain } = {}) {
  if (readOnly && !reads) return false;
  const button = el(plain ? 'button' : 'button.main', verb);
  const element = el(stacked ? 'form.stack' : fill ? 'form.line.fill' : 'form.line', contents, el('div', button));
  element.addEventListener('submit', (event) => {
    event.preventDefault();
    const values = Object.fromEntries([...new FormData(element)].map(([name, value]) => [name, typeof value === 'string' ? value.trim() : value]));
    attempt(button, element, () => work(values, element));
  });
  return el('div', element);
}

/** A form that small screens fold away, so that the page below it can be seen. */
export const folded = (title, contents) =>
  PHONE.matches ? el('details.panel.folded', el('summary', title), contents) : contents;

/** A secret that is shown once: it is gone when the page is left. */
export function once(what, secret) {
  // Browsers provide the clipboard only on localhost and over TLS.
  const copy = () => navigator.clipboard.writeText(secret);
  const button = navigator.clipboard && el('button', { type: 'button', onclick: copy }, t`Copy`);
  return el(
    'div.secret',
    { role: 'alert' },
    el('p', t`${what} Copy it now: it won’t be shown again.`),
    el('p.actions', el('code', secret), button),
  );
}

// A panel shows one thing and lets one act on it: it says what it waits for, what was refused and why, and what was
// done, where that was.
import { el } from './dom.js';

/** The words of a refusal, for the place where it happened. */
export function refusal(error) {
  const { message, code, status, details, requestId } = error;
  if (!('status' in error)) console.error(error);
  const sentence = `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
  const known = { ROLE_NOT_ALLOWED: 'Your role does not allow this; ask an administrator.' }[code];
  const problems = (details?.problems ?? []).map(({ line, message: what }) => (line ? `line ${line}: ${what}` : what));
  const doubts = details?.doubts ?? [];
  const list = [...problems, ...doubts].map((text) => el('li', text));
  return el(
    'div.refusal',
    { role: 'alert' },
    known && el('strong', known, ' '),
    sentence,
    code && el('small', { title: requestId ? `request ${requestId}` : undefined }, ` ${code} ${status}`),
    list.length > 0 && el('ul', list),
  );
}

/**
 * A section with a title. `draw` gives its contents, or a promise of them, and gets the panel: `say` tells what was done,
 * `show` what came of it, `done` draws the panel again and tells. `every` so many seconds it is drawn again by itself.
 */
export function panel(title, draw, { every } = {}) {
  const status = el('p.status', { role: 'status', tabindex: '-1' });
  let body = el('div');
  const result = el('div');
  const element = el('section.panel', title && el('h2', title), status, result, body);
  const self = { say, show, done };
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
    // A later drawing may have come to its end first.
    if (mine !== turn) return;
    const fresh = el('div', contents);
    body.replaceWith(fresh);
    body = fresh;
    element.removeAttribute('aria-busy');
    if (every) setTimeout(again, every * 1000, mine);
  }

  /** Not while somebody is about to do something here. */
  function again(mine) {
    if (mine !== turn || !element.isConnected) return;
    const busy = element.contains(document.activeElement) || document.querySelector('dialog[open]');
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
    // What was pressed may have gone with the old contents: who uses the keyboard goes on from here.
    if (text && document.activeElement === document.body) status.focus();
  }

  if (title) element.setAttribute('aria-label', title);
  reload();
  return element;
}

/** Asks once, naming what will be done. */
function confirmed(question, verb) {
  const dialog = document.getElementById('question');
  dialog.querySelector('p').textContent = question;
  dialog.querySelector('[value=yes]').textContent = verb;
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((answer) => {
    dialog.addEventListener('close', () => answer(dialog.returnValue === 'yes'), { once: true });
  });
}

/** Runs `work` with the button out of order meanwhile; what is refused is told behind `place`. */
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

// An observer changes nothing: buttons and forms that would change something are not drawn, and the service refuses them.
let readOnly = false;

/** Sets whether the operator may only read. */
export function readsOnly(only) {
  readOnly = only;
}

/** Whether the operator may change something. */
export const mayChange = () => !readOnly;

/**
 * A button that does something. `ask` is the question of one that destroys, with the same verb on its button; `reads` says
 * that it changes nothing.
 */
export function action(verb, work, { ask, label, reads } = {}) {
  if (readOnly && !reads) return false;
  const button = el(`button${ask ? '.danger' : ''}`, { type: 'button', 'aria-label': label }, verb);
  button.addEventListener('click', async () => {
    if (ask && !(await confirmed(ask, verb))) return;
    await attempt(button, button, work);
  });
  return el('span.action', button);
}

/**
 * A form in a line: fields, a button, and what is done with the fields' values by name, trimmed. `reads` says that it
 * changes nothing.
 */
export function form(verb, contents, work, { reads } = {}) {
  if (readOnly && !reads) return false;
  const button = el('button.main', verb);
  const element = el('form.line', contents, button);
  element.addEventListener('submit', (event) => {
    event.preventDefault();
    const values = Object.fromEntries([...new FormData(element)].map(([name, text]) => [name, text.trim()]));
    attempt(button, element, () => work(values, element));
  });
  return el('div', element);
}

/** A secret that is told once: it is gone when the page is left. */
export function once(what, secret) {
  // Browsers let pages copy on this machine and over TLS.
  const copy = () => navigator.clipboard.writeText(secret);
  const button = navigator.clipboard && el('button', { type: 'button', onclick: copy }, 'Copy');
  return el(
    'div.secret',
    { role: 'alert' },
    el('p', `${what} It is told this once.`),
    el('p.actions', el('code', secret), button),
  );
}

// The mail queue, or the mail sink if no mail server is configured. The HTML of a mail is shown as source: rendered, it
// would be foreign markup in the console.
import { at, call, get } from './api.js';
import { badge, el, facts, field, link, quiet, table, when } from './dom.js';
import { form, panel } from './panel.js';

const KINDS = { sent: 'good', failed: 'bad', expired: 'bad', queued: 'warn', sink: '' };
const SHOWN = 100;

export function mail({ rest: [id], about }) {
  if (id) return [panel('', () => one(id))];
  return [panel('', list), ...(about.role === 'admin' ? [panel('Test mail', test)] : [])];
}

async function list() {
  const all = await get('mail');
  const rows = all
    .slice(0, SHOWN)
    .map((letter) => [
      when(letter.createdAt),
      link(letter.subject, 'mail', letter.id),
      letter.to,
      letter.kind,
      badge(letter.status, KINDS[letter.status]),
      [letter.attempts ? `attempts: ${letter.attempts}` : '', letter.server && [el('br'), quiet(letter.server)]],
    ]);
  return [
    table(['Created', 'Subject', 'To', 'Type', 'State', 'Server'], rows, 'No mail.'),
    all.length > SHOWN && el('p.quiet', `Showing the newest ${SHOWN} of ${all.length}.`),
  ];
}

async function one(id) {
  const letter = await get(at`mail/${id}`);
  return [
    facts([
      ['Subject', el('strong', letter.subject)],
      ['To', letter.to],
      ['Created', when(letter.createdAt)],
      ['Type', letter.kind],
      ['State', badge(letter.status, KINDS[letter.status])],
      ['Attempts', letter.attempts],
      ['Next attempt', letter.nextAttempt && when(letter.nextAttempt)],
      ['Server', letter.server],
    ]),
    letter.masked &&
      el(
        'p.quiet',
        'The token in the link or the PIN is masked. Only administrators see it; the audit log records each access.',
      ),
    el('pre', letter.text),
    el('details', el('summary', 'HTML source'), el('pre', letter.html)),
    el('p', el('a', { href: '#/mail' }, 'All mail')),
  ];
}

function test(self) {
  return form(
    'Send test mail',
    [field('To', 'to', { type: 'email', required: true, size: 28 })],
    async ({ to }, element) => {
      const { status, dialogue } = await call('POST', 'mail/test', { to });
      element.parentNode.querySelector('pre')?.remove();
      if (dialogue) element.after(el('pre', dialogue.join('\n')));
      self.say(`Status: ${status}.`);
    },
  );
}

// The queue of mails, or the sink where there is no mail server. Of a mail the text is shown, and its HTML as it is
// written: drawn here it would be a page of others inside of ours.
import { at, call, get } from './api.js';
import { badge, el, facts, field, link, quiet, table, when } from './dom.js';
import { form, panel } from './panel.js';

const KINDS = { sent: 'good', failed: 'bad', expired: 'bad', queued: 'warn', sink: '' };
const SHOWN = 100;

export function mail({ rest: [id], about }) {
  if (id) return [panel('', () => one(id))];
  return [panel('', list), ...(about.role === 'admin' ? [panel('Test', test)] : [])];
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
      [letter.attempts ? `tries: ${letter.attempts}` : '', letter.server && [el('br'), quiet(letter.server)]],
    ]);
  return [
    table(['When', 'Subject', 'To', 'Kind', 'State', 'Server'], rows, 'No mail.'),
    all.length > SHOWN && el('p.quiet', `The newest ${SHOWN} of ${all.length}.`),
  ];
}

async function one(id) {
  const letter = await get(at`mail/${id}`);
  return [
    facts([
      ['Subject', el('strong', letter.subject)],
      ['To', letter.to],
      ['When', when(letter.createdAt)],
      ['Kind', letter.kind],
      ['State', badge(letter.status, KINDS[letter.status])],
      ['Tries', letter.attempts],
      ['Next', letter.nextAttempt && when(letter.nextAttempt)],
      ['Server', letter.server],
    ]),
    letter.masked &&
      el('p.quiet', 'The link’s token or the PIN is masked. Administrators see it, and the audit record says so.'),
    el('pre', letter.text),
    el('details', el('summary', 'Its HTML, as it is written'), el('pre', letter.html)),
    el('p', el('a', { href: '#/mail' }, 'All mails')),
  ];
}

function test(self) {
  return form(
    'Send a test mail',
    [field('To', 'to', { type: 'email', required: true, size: 28 })],
    async ({ to }, element) => {
      const { status, dialogue } = await call('POST', 'mail/test', { to });
      element.parentNode.querySelector('pre')?.remove();
      if (dialogue) element.after(el('pre', dialogue.join('\n')));
      self.say(`It is: ${status}.`);
    },
  );
}

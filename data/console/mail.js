// The mail queue, or the mail sink if no mail server is configured.
import { at, call, get } from './api.js';
import { absent, badge, clipped, el, facts, field, link, quiet, stamp, when } from './dom.js';
import { t } from './i18n.js';
import { list } from './list.js';
import { action, form, panel, subject } from './panel.js';

const KINDS = { sent: 'good', failed: 'bad', expired: 'bad', queued: 'warn', sink: '' };

const STATES = () => ({
  sent: t`sent`,
  failed: t`failed`,
  expired: t`expired`,
  queued: t`queued`,
  sink: t`stored, not sent`,
});
const state = ({ status }) => badge(STATES()[status] ?? status, KINDS[status]);

export function mail({ rest: [id], about, search, head }) {
  if (id) {
    const back = [t`All mail`, '#/mail'];
    head(t`Mail`, { back });
    return subject(
      () => get(at`mail/${id}`),
      (letter) => {
        head(letter.subject, { back, beside: [state(letter), letter.to] });
        return [panel('', (self) => one(letter, self, about))];
      },
    );
  }
  return [letters(search), ...(about.role === 'admin' ? [panel(t`Test mail`, test)] : [])];
}

const letters = (search) =>
  list('', () => get('mail'), {
    search,
    csv: 'mail',
    none: t`No mail.`,
    opens: true,
    zoned: true,
    sort: '-at',
    matches: ({ subject, to, kind, server }) => [subject, to, kind, server],
    filters: [
      {
        name: 'status',
        label: t`State`,
        options: Object.entries(STATES()),
        test: ({ status }, value) => status === value,
      },
    ],
    columns: [
      { head: t`Created`, id: 'at', value: (one) => one.createdAt, cell: (one) => stamp(one.createdAt) },
      { head: t`Subject`, id: 'subject', grow: 2, value: ({ subject }) => subject, cell: ({ subject, id }) => clipped(subject, link(subject, 'mail', id)) },
      { head: t`To`, id: 'to', grow: 2, value: ({ to }) => to, cell: ({ to }) => clipped(to) },
      { head: t`Type`, id: 'kind', value: ({ kind }) => kind, cell: ({ kind }) => kind },
      { head: t`State`, id: 'status', value: ({ status }) => status, cell: state },
      {
        head: t`Server`,
        id: 'server',
        grow: 2,
        value: ({ server }) => server,
        cell: ({ attempts, server }) => (attempts || server ? el('span.clip', { title: server }, attempts ? t`attempts: ${attempts}` : '', server && [' ', quiet(server)]) : absent()),
      },
    ],
  });

function one(letter, self, about) {
  const { id } = letter;
  return [
    facts([
      [t`To`, el('strong', letter.to)],
      [t`Created`, when(letter.createdAt)],
      [t`Type`, letter.kind],
      [t`State`, state(letter)],
      [t`Attempts`, letter.attempts],
      [t`Next attempt`, letter.nextAttempt && when(letter.nextAttempt)],
      [t`Server`, letter.server],
    ]),
    ['failed', 'expired'].includes(letter.status) &&
      ['admin', 'agent'].includes(about.role) &&
      action(t`Send again`, async () => {
        const { queued, skipped } = await call('POST', 'mail/retry', { id });
        self.done(queued.length ? t`The mail is queued.` : skipped[0].message);
      }),
    letter.masked &&
      el(
        'p.quiet',
        t`The token in the link or the PIN is masked. Only administrators see it; the audit log records each access.`,
      ),
    el('div.sides', rendered(letter.html), el('pre', letter.text)),
    el('details', el('summary', t`HTML source`), el('pre', letter.html)),
  ];
}

/**
 * The mail as its reader sees it, in a frame without scripts, forms and addresses: markup of others must not act in the console.
 * The frame inherits the policy of the console, which takes no inline styles. They are set as values, which it takes.
 */
function rendered(html) {
  const frame = el('iframe.letter', { sandbox: 'allow-same-origin', srcdoc: '', title: t`Mail as its reader sees it` });
  frame.addEventListener('load', () => fill(frame.contentDocument, new DOMParser().parseFromString(html, 'text/html')));
  return frame;
}

function fill(page, mail) {
  page.adoptedStyleSheets = [...mail.querySelectorAll('style')].map((style) => {
    const sheet = new page.defaultView.CSSStyleSheet();
    sheet.replaceSync(style.textContent);
    style.remove();
    return sheet;
  });
  page.documentElement.lang = mail.documentElement.lang;
  page.body.replaceWith(page.adoptNode(mail.body));
  for (const styled of page.querySelectorAll('[style]')) {
    const values = styled.getAttribute('style');
    styled.removeAttribute('style');
    styled.style.cssText = values;
  }
}

function test(self) {
  return form(
    t`Send test mail`,
    [field(t`To`, 'to', { type: 'email', required: true, size: 28 })],
    async ({ to }, element) => {
      const { status, dialogue } = await call('POST', 'mail/test', { to });
      element.parentNode.querySelector('pre')?.remove();
      if (dialogue) element.after(el('pre', dialogue.join('\n')));
      self.say(t`Status: ${STATES()[status] ?? status}.`);
    },
  );
}

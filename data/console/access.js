// Partners, operators and their tokens. A token is shown only once, when it is created.
import { at, call, get } from './api.js';
import { badge, choice, count, el, field, link, table, when } from './dom.js';
import { t } from './i18n.js';
import { list } from './list.js';
import { action, form, once, panel } from './panel.js';

const ROLES = () => [
  ['agent', t`agent: users, mail, playback sessions`],
  ['content', t`content: catalogue, schedule, rights`],
  ['observer', t`observer: read-only, without secrets`],
  ['admin', t`admin: everything`],
];

export const access = () => [partners(), operators()];

function partners() {
  const set = async (self, { partnerId, name }, disabled) => {
    await call('PUT', at`partners/${partnerId}`, { disabled });
    await self.done(disabled ? t`${name} is disabled; its requests are refused.` : t`${name} is enabled.`);
  };
  const button = (one, self) =>
    one.disabled
      ? action(t`Enable`, () => set(self, one, false), { label: t`Enable ${one.name}` })
      : action(t`Disable`, () => set(self, one, true), {
          ask: t`Disable ${one.name}? Requests of its apps are refused from now on, for all ${count(one.users)} users.`,
          label: t`Disable ${one.name}`,
        });
  const add = (self) =>
    form(t`Add partner`, [field(t`Name`, 'name', { required: true, maxlength: 128 })], async ({ name }) => {
      const { accessToken } = await call('POST', 'partners', { name });
      await self.done(t`Added the partner ${name}.`);
      self.show(once(t`Access token for ${name}.`, accessToken));
    });
  return list(t`Partners`, () => get('partners'), {
    csv: 'partners',
    none: t`No partners yet.`,
    matches: ({ name, partnerId }) => [name, partnerId],
    more: (_, self) => add(self),
    columns: [
      {
        head: t`Partner`,
        id: 'name',
        value: ({ name }) => name,
        cell: (one) => [
          el('strong', { title: one.partnerId }, one.name),
          one.kind === 'lab' && [' ', link(t`Lab`, 'lab', one.name)],
        ],
      },
      { head: t`State`, id: 'state', value: stateOf, cell: (one) => badge(stateOf(one), one.disabled ? 'bad' : 'good') },
      { head: t`Users`, id: 'users', value: ({ users }) => users, cell: ({ users }) => count(users) },
      { head: t`Created`, id: 'at', value: (one) => one.createdTimestamp, cell: (one) => when(one.createdTimestamp) },
      { head: t`Tokens`, cell: (one) => tokens('partners', one.partnerId, one.name, one.tokens) },
      { head: '', cell: button },
    ],
  });
}

const stateOf = ({ disabled }) => (disabled ? t`disabled` : t`enabled`);

function operators() {
  const revoke = async (self, { operatorId, name }) => {
    await call('DELETE', at`operators/${operatorId}`);
    await self.done(t`Removed the operator ${name}.`);
  };
  const button = (one, self) =>
    action(t`Remove`, () => revoke(self, one), {
      ask: t`Remove the operator ${one.name}? All their tokens are revoked.`,
      label: t`Remove ${one.name}`,
    });
  const add = (self) =>
    form(
      t`Add operator`,
      [field(t`Name`, 'name', { required: true, maxlength: 128 }), choice(t`Role`, 'role', ROLES())],
      async ({ name, role }) => {
        const { token } = await call('POST', 'operators', { name, role });
        await self.done(t`Added the operator ${name}.`);
        self.show(once(t`Operator token for ${name}.`, token));
      },
    );
  return list(t`Operators`, () => get('operators'), {
    csv: 'operators',
    matches: ({ name, role }) => [name, role],
    more: (_, self) => add(self),
    columns: [
      { head: t`Operator`, id: 'name', value: ({ name }) => name, cell: ({ name }) => el('strong', name) },
      { head: t`Role`, id: 'role', value: ({ role }) => role, cell: ({ role }) => badge(role) },
      { head: t`Created`, id: 'at', value: (one) => one.createdTimestamp, cell: (one) => when(one.createdTimestamp) },
      { head: t`Tokens`, cell: (one) => tokens('operators', one.operatorId, one.name) },
      { head: '', cell: button },
    ],
  });
}

/** The tokens of a partner or operator, fetched when the section is expanded. */
function tokens(kind, id, name, number) {
  const summary = el(
    'summary',
    number === undefined ? t`Tokens` : number === 1 ? t`1 token` : t`${count(number)} tokens`,
  );
  const details = el('details', summary);
  const open = () => {
    if (details.open && details.children.length === 1) details.append(panel('', (self) => list(self)));
  };
  details.addEventListener('toggle', open);

  async function list(self) {
    const all = await get(at`${kind}/${id}/tokens`);
    const revoke = async (tokenId) => {
      await call('DELETE', at`${kind}/${id}/tokens/${tokenId}`);
      await self.done(t`Revoked the token ${tokenId}.`);
    };
    const rows = all.map(({ tokenId, label, createdTimestamp, lastUsedTimestamp: used }) => [
      [el('code', tokenId), label && [' ', label]],
      when(createdTimestamp),
      used ? when(used) : t`never`,
      action(t`Revoke`, () => revoke(tokenId), {
        ask: t`Revoke the token ${tokenId} of ${name}? Requests with it are refused from now on.`,
        label: t`Revoke ${tokenId}`,
      }),
    ]);
    const add = async () => {
      const made = await call('POST', at`${kind}/${id}/tokens`);
      await self.done(t`Created the token ${made.tokenId}.`);
      self.show(once(t`Token for ${name}.`, made.token ?? made.accessToken));
    };
    return [table([t`Token id`, t`Created`, t`Last use`, ''], rows, t`No tokens.`), el('p.actions', action(t`Create token`, add))];
  }
  return details;
}

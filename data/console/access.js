// Partners, operators and their tokens. A token is shown only once, when it is created.
import { at, call, get } from './api.js';
import { badge, choice, count, el, field, table, when } from './dom.js';
import { action, form, once, panel } from './panel.js';

const ROLES = [
  ['agent', 'agent: users, mail, playback sessions'],
  ['content', 'content: catalogue, schedule, rights'],
  ['observer', 'observer: read-only, without secrets'],
  ['admin', 'admin: everything'],
];

export const access = () => [panel('Partners', partners), panel('Operators', operators)];

async function partners(self) {
  const list = await get('partners');
  const set = async ({ partnerId, name }, disabled) => {
    await call('PUT', at`partners/${partnerId}`, { disabled });
    await self.done(disabled ? `${name} is disabled; its requests are refused.` : `${name} is enabled.`);
  };
  const rows = list.map((one) => [
    [el('strong', one.name), el('br'), el('code.quiet', one.partnerId)],
    one.disabled ? badge('disabled', 'bad') : badge('enabled', 'good'),
    count(one.users),
    when(one.createdTimestamp),
    tokens('partners', one.partnerId, one.name, one.tokens),
    one.disabled
      ? action('Enable', () => set(one, false), { label: `Enable ${one.name}` })
      : action('Disable', () => set(one, true), {
          ask: `Disable ${one.name}? Requests of its apps are refused from now on, for all ${count(one.users)} users.`,
          label: `Disable ${one.name}`,
        }),
  ]);
  const add = async ({ name }) => {
    const { accessToken } = await call('POST', 'partners', { name });
    await self.done(`Added the partner ${name}.`);
    self.show(once(`Access token for ${name}.`, accessToken));
  };
  return [
    table(['Partner', 'State', 'Users', 'Created', 'Tokens', ''], rows, 'No partners yet.'),
    form('Add partner', [field('Name', 'name', { required: true, maxlength: 128 })], add),
  ];
}

async function operators(self) {
  const list = await get('operators');
  const revoke = async ({ operatorId, name }) => {
    await call('DELETE', at`operators/${operatorId}`);
    await self.done(`Removed the operator ${name}.`);
  };
  const rows = list.map((one) => [
    el('strong', one.name),
    badge(one.role),
    when(one.createdTimestamp),
    tokens('operators', one.operatorId, one.name),
    action('Remove', () => revoke(one), {
      ask: `Remove the operator ${one.name}? All their tokens are revoked.`,
      label: `Remove ${one.name}`,
    }),
  ]);
  const add = async ({ name, role }) => {
    const { token } = await call('POST', 'operators', { name, role });
    await self.done(`Added the operator ${name}.`);
    self.show(once(`Operator token for ${name}.`, token));
  };
  return [
    table(['Operator', 'Role', 'Created', 'Tokens', ''], rows),
    form(
      'Add operator',
      [field('Name', 'name', { required: true, maxlength: 128 }), choice('Role', 'role', ROLES)],
      add,
    ),
  ];
}

/** The tokens of a partner or operator, fetched when the section is expanded. */
function tokens(kind, id, name, number) {
  const summary = el(
    'summary',
    number === undefined ? 'Tokens' : `${count(number)} ${number === 1 ? 'token' : 'tokens'}`,
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
      await self.done(`Revoked the token ${tokenId}.`);
    };
    const rows = all.map(({ tokenId, createdTimestamp }) => [
      el('code', tokenId),
      when(createdTimestamp),
      action('Revoke', () => revoke(tokenId), {
        ask: `Revoke the token ${tokenId} of ${name}? Requests with it are refused from now on.`,
        label: `Revoke ${tokenId}`,
      }),
    ]);
    const add = async () => {
      const made = await call('POST', at`${kind}/${id}/tokens`);
      await self.done(`Created the token ${made.tokenId}.`);
      self.show(once(`Token for ${name}.`, made.token ?? made.accessToken));
    };
    return [table(['Token id', 'Created', ''], rows, 'No tokens.'), el('p.actions', action('Create token', add))];
  }
  return details;
}

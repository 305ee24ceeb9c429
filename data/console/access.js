// Partners, operators and their tokens. A token is shown once, when it is made.
import { at, call, get } from './api.js';
import { badge, choice, count, el, field, table, when } from './dom.js';
import { action, form, once, panel } from './panel.js';

const ROLES = [
  ['agent', 'agent: users, mail, sessions'],
  ['content', 'content: catalogue, schedule, rights'],
  ['observer', 'observer: reads everything but secrets, changes nothing'],
  ['admin', 'admin: everything'],
];

export const access = () => [panel('Partners', partners), panel('Operators', operators)];

async function partners(self) {
  const list = await get('partners');
  const set = async ({ partnerId, name }, disabled) => {
    await call('PUT', at`partners/${partnerId}`, { disabled });
    await self.done(disabled ? `What ${name} asks is refused.` : `${name} is served again.`);
  };
  const rows = list.map((one) => [
    [el('strong', one.name), el('br'), el('code.quiet', one.partnerId)],
    one.disabled ? badge('disabled', 'bad') : badge('served', 'good'),
    count(one.users),
    when(one.createdTimestamp),
    tokens('partners', one.partnerId, one.name, one.tokens),
    one.disabled
      ? action('Enable', () => set(one, false), { label: `Enable ${one.name}` })
      : action('Disable', () => set(one, true), {
          ask: `Disable ${one.name}? Everything its apps ask is refused from the next request on, for all ${count(one.users)} users.`,
          label: `Disable ${one.name}`,
        }),
  ]);
  const add = async ({ name }) => {
    const { accessToken } = await call('POST', 'partners', { name });
    await self.done(`${name} was added.`);
    self.show(once(`The access token of ${name}.`, accessToken));
  };
  return [
    table(['Partner', 'State', 'Users', 'Since', 'Tokens', ''], rows, 'No partners yet.'),
    form('Add a partner', [field('Name', 'name', { required: true, maxlength: 128 })], add),
  ];
}

async function operators(self) {
  const list = await get('operators');
  const revoke = async ({ operatorId, name }) => {
    await call('DELETE', at`operators/${operatorId}`);
    await self.done(`${name} is no longer an operator.`);
  };
  const rows = list.map((one) => [
    el('strong', one.name),
    badge(one.role),
    when(one.createdTimestamp),
    tokens('operators', one.operatorId, one.name),
    action('Remove', () => revoke(one), {
      ask: `Remove the operator ${one.name}? All their tokens are refused from the next request on.`,
      label: `Remove ${one.name}`,
    }),
  ]);
  const add = async ({ name, role }) => {
    const { token } = await call('POST', 'operators', { name, role });
    await self.done(`${name} was added.`);
    self.show(once(`The token of ${name}.`, token));
  };
  return [
    table(['Operator', 'Role', 'Since', 'Tokens', ''], rows),
    form(
      'Add an operator',
      [field('Name', 'name', { required: true, maxlength: 128 }), choice('Role', 'role', ROLES)],
      add,
    ),
  ];
}

/** The tokens of a partner or an operator, looked at when they are unfolded. */
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
      await self.done(`The token ${tokenId} is refused.`);
    };
    const rows = all.map(({ tokenId, createdTimestamp }) => [
      el('code', tokenId),
      when(createdTimestamp),
      action('Revoke', () => revoke(tokenId), {
        ask: `Revoke the token ${tokenId} of ${name}? It is refused from the next request on.`,
        label: `Revoke ${tokenId}`,
      }),
    ]);
    const add = async () => {
      const made = await call('POST', at`${kind}/${id}/tokens`);
      await self.done(`The token ${made.tokenId} was made.`);
      self.show(once(`A token of ${name}.`, made.token ?? made.accessToken));
    };
    return [table(['Token', 'Since', ''], rows, 'None.'), el('p.actions', action('New token', add))];
  }
  return details;
}

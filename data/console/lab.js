// The partner lab: the clock of the server, and of each lab partner its faults, clock, scenario and reset.
import { at, call, get } from './api.js';
import { absent, badge, choice, count, el, facts, field, link, quiet, span, table, when } from './dom.js';
import { localTime, t, zoneName } from './i18n.js';
import { list } from './list.js';
import { action, form, once, panel, subject } from './panel.js';

const REDRAW = 5; // seconds
const STEPS = [60, 900, 3_600, 86_400, 604_800];
// Values to choose from; others can be typed.
const ACTIONS = {
  refuse: ['SESSION_ENDED', 'NO_LIVE_RIGHTS', 'PIN_CODE_REQUIRED', 'USER_TOKEN_INVALID', 'NOT_ENTITLED', 'STREAM_LIMIT_REACHED'],
  delay: ['2s', '8s', '500ms'],
  status: ['503', '500', '429'],
  cut: ['head', 'body'],
  license: ['garbage', 'empty', 'foreignKid'],
  playlist: ['expired', 'missing', 'stale'],
};
// Other routes send no license and no address of a playlist.
const ONLY_ROUTE = { license: 'license', playlist: 'preflight' };
const ROUTES = ['any', 'license', 'heartbeat', 'entitlement', 'preflight', 'login', 'live', 'end_playback'];

export function lab({ rest: [name], head }) {
  if (!name) return [serverClock(), partners()];
  head(name, { back: [t`All lab partners`, '#/lab'], beside: t`Lab partner` });
  const draw = () => [
    faults(name),
    partnerClock(name),
    scenario(name),
    reset(name),
  ];
  return subject(() => get(at`partners/${name}/clock`), draw);
}

// -- Clocks

const ahead = (seconds) => (seconds === 0 ? t`none` : `${seconds < 0 ? '−' : '+'}${span(Math.abs(seconds))}`);

/** Controls that move a clock; `move` sends the change. */
function movers(move) {
  const signs = [1, -1];
  const steps = signs.flatMap((sign) => STEPS.map((step) => [sign * step, ahead(sign * step)]));
  return [
    form(t`Move`, [choice(t`Move by`, 'by', steps, 3_600)], ({ by }) => move('PUT', { advance: Number(by) })),
    form(t`Set`, [field(t`Time (${zoneName()})`, 'now', { type: 'datetime-local', required: true })], ({ now }) =>
      move('PUT', { now: localTime(now.slice(0, 16)) }),
    ),
  ];
}

function serverClock() {
  return panel(t`Clock of the server`, async (self) => {
    const { now, offset, scale, movable } = await get('clock');
    const move = async (method, body) => {
      const { pendingJobs } = await call(method, 'clock', body);
      const late = pendingJobs?.join(', ');
      const text = t`Moved the clock; the jobs that were due have run.`;
      await self.done(late ? t`Moved the clock. These jobs still run: ${late}.` : text);
    };
    const pace = (value, verb) => action(verb, () => move('PUT', { scale: value }));
    const shown = facts([
      [t`Time`, when(now)],
      [t`Ahead of real time`, ahead(offset)],
      [t`Pace`, scale === 0 ? badge(t`stopped`, 'warn') : scale === 1 ? t`real time` : badge(t`${scale} times`, 'warn')],
    ]);
    const scope = el('p.quiet', t`Programmes, rights, tokens, sessions and background jobs of all partners follow it.`);
    if (!movable) return [shown, el('p.quiet', t`It cannot be moved: “lab.clock” is off.`)];
    return [
      shown,
      scope,
      movers(move),
      el(
        'p.actions',
        scale === 0 ? pace(1, t`Run`) : action(t`Stop the clock`, () => move('PUT', { freeze: true })),
        scale !== 60 && pace(60, t`Run 60 times as fast`),
        action(t`Return to real time`, () => move('DELETE')),
      ),
    ];
  });
}

function partnerClock(name) {
  return panel(t`Clock`, async (self) => {
    const { now, offset } = await get(at`partners/${name}/clock`);
    const move = async (method, body) => {
      await call(method, at`partners/${name}/clock`, body);
      await self.done(t`Moved the clock of ${name}.`);
    };
    return [
      facts([
        [t`Time`, when(now)],
        [t`Ahead of the server`, ahead(offset)],
      ]),
      el('p.quiet', t`Schedule, rights and live points follow it. Tokens and sessions expire by the clock of the server.`),
      movers(move),
      offset !== 0 && el('p.actions', action(t`Return to the clock of the server`, () => move('DELETE'))),
    ];
  });
}

// -- Partners

function partners() {
  const add = (self) =>
    form(t`Add lab partner`, [field(t`Name`, 'name', { required: true, maxlength: 128 })], async ({ name }) => {
      const { accessToken } = await call('POST', 'partners', { name, kind: 'lab' });
      await self.done(t`Added the partner ${name}.`);
      self.show(once(t`Access token for ${name}.`, accessToken));
    });
  return list(t`Lab partners`, async () => (await get('partners')).filter(({ kind }) => kind === 'lab'), {
    csv: 'lab-partners',
    none: t`No lab partners yet. Their requests can be made to fail; other partners notice nothing.`,
    matches: ({ name, partnerId }) => [name, partnerId],
    more: (_, self) => add(self),
    columns: [
      { head: t`Partner`, id: 'name', value: ({ name }) => name, cell: ({ name }) => link(name, 'lab', name) },
      { head: t`Users`, id: 'users', value: ({ users }) => users, cell: ({ users }) => count(users) },
      { head: t`Created`, id: 'at', value: (one) => one.createdTimestamp, cell: (one) => when(one.createdTimestamp) },
    ],
  });
}

// -- Faults

function faults(name) {
  // The table is redrawn, and not the form, in which somebody may be typing.
  let shown;
  const all = panel('', (self) => ((shown = self), drawFaults(name, self)), { every: REDRAW });
  return panel(t`Faults`, () => [all, newFault(name, (text) => shown.done(text))]);
}

async function drawFaults(name, self) {
  const remove = async (path, text) => {
    await call('DELETE', path);
    await self.done(text);
  };
  const all = await get(at`partners/${name}/faults`);
  const row = (one) => [
    el('code', one.faultId),
    one.route,
    words(one.match),
    words(one.do),
    t`${count(one.applied)} of ${count(one.calls)}`,
    one.until ?? absent(),
    action(t`Remove`, () => remove(at`partners/${name}/faults/${one.faultId}`, t`Removed the fault ${one.faultId}.`), {
      label: t`Remove ${one.faultId}`,
    }),
  ];
  const heads = [t`Fault`, t`Route`, t`Conditions`, t`Action`, t`Applied`, t`Ends in`, ''];
  return [
    table(heads, all.map(row), t`No faults.`),
    all.length > 1 &&
      el('p.actions', action(t`Remove all faults`, () => remove(at`partners/${name}/faults`, t`Removed all faults.`))),
  ];
}

const words = (members) =>
  Object.entries(members)
    .map(([member, value]) => `${member} ${value}`)
    .join(', ') || absent();

function newFault(name, added) {
  const values = el('datalist', { id: 'fault-values' });
  const routes = el('datalist', { id: 'fault-routes' }, ROUTES.map((route) => el('option', { value: route })));
  const actions = choice(t`Action`, 'what', Object.keys(ACTIONS).map((one) => [one, one]));
  const value = field(t`Code or value`, 'value', { list: values.id, required: true });
  const route = field(t`Route`, 'route', { list: routes.id, required: true, value: 'heartbeat' });
  const suggest = () => {
    const what = actions.querySelector('select').value;
    const known = ACTIONS[what];
    if (ONLY_ROUTE[what]) route.querySelector('input').value = ONLY_ROUTE[what];
    values.replaceChildren(...known.map((one) => el('option', { value: one })));
    value.querySelector('input').value = known[0];
  };
  actions.addEventListener('change', suggest);
  suggest();
  const number = { type: 'number', min: 0, size: 6 };
  const contents = [
    [routes, values],
    route,
    actions,
    value,
    field(t`User`, 'user'),
    field(t`Asset`, 'asset'),
    // Not `after`: a field of that name would hide the method of the form.
    field(t`Skip the first … requests`, 'served', number),
    field(t`Apply how often`, 'times', { ...number, min: 1, placeholder: t`always` }),
    field(t`Ends in`, 'until', { placeholder: '10m' }),
  ];
  const add = async ({ route, what, value, user, asset, served, times, until }) => {
    const fault = await call('POST', at`partners/${name}/faults`, {
      route,
      match: { user: user || null, asset: asset || null },
      after: served ? Number(served) : null,
      times: times ? Number(times) : null,
      until: until || null,
      do: { [what]: what === 'status' ? Number(value) : value },
    });
    await added(t`Added the fault ${fault.faultId}.`);
  };
  return form(t`Add fault`, contents, add, { stacked: true });
}

// -- Scenario and reset

const STATES = { running: 'warn', passed: 'good', failed: 'bad' };

function scenario(name) {
  const draw = async () => {
    const { scenario, state, steps, done, failure } = await get(at`partners/${name}/scenario`);
    const command = el('code', `playgate lab run token-expired --partner '${name}' --wait`);
    if (!scenario) return el('p.quiet', t`No scenario was run. Start one with`, ' ', command);
    const mark = (i) => {
      if (i < done) return badge(t`done`, 'good');
      if (i > done) return '';
      return failure ? [badge(t`failed`, 'bad'), ' ', failure] : badge(t`waiting`, 'warn');
    };
    return [
      facts([
        [t`Scenario`, el('strong', scenario)],
        [t`State`, badge(state, STATES[state])],
      ]),
      el('ol', steps.map((step, i) => el('li', step, ' ', mark(i)))),
    ];
  };
  return panel(t`Scenario`, draw, { every: REDRAW });
}

function reset(name) {
  return panel(t`Reset`, (self) => {
    const to = (fixture, verb) => {
      const work = async () => {
        const { removed, users } = await call('POST', at`partners/${name}/reset`, { fixture });
        await self.done(t`Users removed: ${removed}, added: ${users}.`);
      };
      return action(verb, work, {
        ask: t`Reset ${name}? All its users with their sessions, devices, mail and requests are removed, and its faults.`,
      });
    };
    return el('p.actions', to('demo', t`Reset to the user of the demo`), to('empty', t`Reset to no users`));
  });
}

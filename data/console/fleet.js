// The members of a fleet, its log and its etcd, as the owner sees them.
import { call, get } from './api.js';
import { absent, badge, bytes, count, el, facts, quiet, span, table, when, yes } from './dom.js';
import { t } from './i18n.js';
import { notice } from './icons.js';
import { action, panel } from './panel.js';

const EVERY = 10; // seconds

export const fleet = () => [panel('', draw, { every: EVERY })];

async function draw() {
  const report = await get('fleet');
  if (!report.fleet) {
    return el(
      'p.quiet',
      t`This machine works alone. Several machines can serve as one, so that another continues when one is lost: see /usr/share/doc/playgate/fleet.md.`,
    );
  }
  const { problems, members, etcd } = report;
  return [
    problems.length ? el('ul.troubles', problems.map(trouble)) : el('p.quiet', t`No problems.`),
    facts([
      [t`Last commit`, report.head === undefined ? absent() : count(report.head)],
      [t`Owner since`, report.ownerSince && when(report.ownerSince)],
      [t`Checked`, when(report.at)],
      [t`Fleet`, el('code', report.fleet)],
    ]),
    el('h3', t`Members`),
    table([t`Name`, t`Role`, t`Address`, t`Version`, t`Commits behind`, t`Requests`, t`Clock`, t`State`], members.map(member)),
    el('h3', 'etcd'),
    table([t`Address`, t`Version`, t`Role`, t`Size`, t`Sync time`, t`Certificate ends`, t`State`], etcd.map(endpoint)),
  ];
}

const trouble = ({ severe, problem, fix }) => notice(severe ? 'bad' : 'warn', problem, fix);

const member = (one) => [
  el('strong', one.name),
  one.owner ? badge(t`owner`, 'good') : one.downSince === undefined ? t`standby` : badge(t`down`, 'bad'),
  el('code', one.address),
  one.version,
  count(one.behind),
  one.owner ? '' : t`${count(one.answered)} answered, ${count(one.forwarded)} forwarded`,
  one.clockMillis === undefined ? absent() : `${count(one.clockMillis)} ms`,
  [one.error ? [badge(t`not reached`, 'bad'), ' ', lastSeen(one)] : yes(true, t`answers`), limits(one)],
];

const lastSeen = (one) => (one.downSince === undefined ? t`last seen ${span(one.silent)} ago` : [t`down since`, ' ', when(one.downSince)]);

const limits = (one) => [
  one.full && [' ', badge(t`disk full`, 'bad')],
  one.unfit && [' ', badge(t`wrong settings`, 'bad')],
  !one.mayOwn && [' ', quiet(t`never the owner`)],
  !one.owner && !one.error && !one.full && !one.unfit && one.mayOwn && [' ', handover(one.name)],
];

const handover = (name) =>
  action(t`Make owner`, () => call('POST', 'fleet/handover', { to: name }), {
    ask: t`Requests wait for some seconds while ${name} takes over.`,
    label: t`Make ${name} the owner`,
    safe: true,
  });

const endpoint = (one) => [
  el('code', one.url),
  one.version || absent(),
  one.leader ? t`leader` : '',
  one.quota ? t`${bytes(one.bytes)} of ${bytes(one.quota)}` : bytes(one.bytes),
  one.syncP99Millis === undefined ? absent() : `${count(one.syncP99Millis)} ms`,
  when(one.certificateUntil),
  one.error ? [badge(t`not reached`, 'bad'), ' ', one.error] : [yes(true, t`answers`), one.alarms.map((alarm) => [' ', badge(alarm, 'bad')])],
];

// A page made of @playgate/client under the shipped scenarios of the lab, with each adapter. That takes a quarter of an hour, so it runs
// with SCENARIOS=all only.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { openPackagePage } from './lib/package.mjs';
import { startSite } from './lib/site.mjs';

const TIMEOUT_MS = 1_500_000;
const COMMAND = path.join(import.meta.dirname, 'lib/app-command.mjs');
const LOOK_MS = 1_000;
const LIVE = { shaka: 'open', dashjs: 'open', hlsjs: 'news' };
/** Of HLS the demo has neither keys, nor a title of an offer, nor a channel that reaches back. */
const HLS = 'asset-gone,blackout,pin-border,restart,slow-network,stolen-stream,token-expired,clock-change';

/** Seconds behind live of a second start. */
const BEHIND = { shaka: -600, dashjs: -600 };
/** What the service refuses besides, so that rules are seen which no shipped scenario is about. */
const MORE = {
  blackout: { route: 'entitlement', times: 1, do: { status: 503 } },
  'pin-border': { route: 'heartbeat', after: 1, times: 1, do: { refuse: 'SESSION_NOT_FOUND' } },
  'slow-network': { route: 'telemetry', times: 1, do: { refuse: 'INVALID_REQUEST' } },
  'stolen-stream': { route: 'heartbeat', after: 1, times: 1, do: { refuse: 'ENTITLEMENT_EXPIRED' } },
  'token-expired': { route: 'preflight', times: 1, do: { refuse: 'STREAM_LIMIT_REACHED' } },
};

const PROGRAM_SECONDS = 40;
const BORDERS_WITHIN_MS = 180_000;

/** Rules that a run may not see, with what they need. The demo has a border of programs each half hour: a test of its own plays over one. */
const UNSEEN = { 'entitlement-at-border': 'a program that ends during the run, 20 seconds before a heartbeat' };
const UNSEEN_BY_HLS = {
  ...UNSEEN,
  'pin-once': 'a title that needs the PIN',
  'one-license': 'a title with a key',
  'offset-in-bounds': 'a channel that reaches back',
};
const unseenBy = (player) => (player === 'hlsjs' ? UNSEEN_BY_HLS : UNSEEN);

const PLAYERS = process.env.SCENARIOS === 'all' ? ['shaka', 'dashjs', 'hlsjs'] : [];

/** The rules that a player did not meet, and why. */
function table(results) {
  const players = Object.keys(results);
  const misses = (player, id) => results[player].get(id) === 'notSeen';
  const line = (id, cells, why) => [id.padEnd(22), ...cells.map((cell) => cell.padEnd(8)), why].join(' ');
  const lines = Object.entries(UNSEEN_BY_HLS)
    .filter(([id]) => players.some((player) => misses(player, id)))
    .map(([id, why]) => line(id, players.map((player) => (misses(player, id) ? 'not seen' : 'seen')), why));
  return [line('rule', players, 'needs'), ...lines].join('\n');
}

describe('a page made of the packages', { concurrency: 1 }, () => {
  let browser, site;
  const results = {};

  before(async () => {
    if (skip) return;
    site = await startSite();
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await site?.stop();
    if (Object.keys(results).length > 0) console.log(table(results));
  });

  for (const player of PLAYERS) {
    test(`is certified with ${player}`, { skip, timeout: TIMEOUT_MS }, async () => {
      const appliance = await startAppliance({ PLAYGATE_PLAYBACK_DEVICES: '20' });
      const { demo } = appliance;
      const only = player === 'hlsjs' ? ['--only', HLS] : [];
      const page = await openPackagePage(browser, site, demo, player);
      let scenario = null; // that the command has begun and not ended
      const control = createServer(async ({ url }, response) => {
        const { pathname, searchParams } = new URL(url, 'http://control');
        const begun = pathname === '/start' ? searchParams.get('scenario') : null;
        if (begun in MORE) await appliance.operate('POST', '/admin/v1/partners/demo/faults', MORE[begun]);
        scenario = begun;
        if (!scenario) await page.stop();
        response.end();
      });
      await new Promise((done) => control.listen(0, '127.0.0.1', done));
      const command = `exec node ${COMMAND} http://127.0.0.1:${control.address().port}`;
      try {
        const run = appliance.command('lab', 'run', 'certification', '--partner', 'demo', '--limit', '2m', '--command', command, '--json', ...only);
        let over = false;
        run.ended.then(() => (over = true));
        while (!over) {
          await page.answerPin(demo.pinCode);
          const film = player !== 'hlsjs' && { revoked: demo.vod.premium, 'license-server': demo.vod.adult }[scenario];
          if (scenario) await page.playAgain(film || LIVE[player], scenario);
          if (scenario) await page.lookAround();
          // Also a start has to get through answers that are late.
          if (scenario === 'slow-network') await page.startOver(LIVE[player], BEHIND[player]);
          await page.evaluate((wait) => new Promise((done) => setTimeout(done, wait)), LOOK_MS);
        }
        const { code, out, err } = await run.ended;
        const report = JSON.parse(out);
        const failed = report.rules?.filter(({ result }) => result === 'failed');
        assert.deepEqual(failed, [], JSON.stringify(failed, null, 1));
        const stuck = report.scenarios.filter(({ passed }) => !passed);
        assert.deepEqual(stuck, [], JSON.stringify(stuck, null, 1));
        assert.equal(code, 0, err);
        results[player] = new Map(report.rules.map(({ id, result }) => [id, result]));
        const unseen = report.rules.filter(({ result }) => result === 'notSeen').map(({ id }) => id);
        assert.deepEqual(unseen.filter((id) => !(id in unseenBy(player))), [], 'rules that the run should see');
        assert.deepEqual(await page.complaints(), []);
      } finally {
        control.close();
        await page.close();
        await appliance.stop();
      }
    });

    test(`keeps its right over a border of programs with ${player}`, { skip, timeout: TIMEOUT_MS }, async () => {
      const appliance = await startAppliance();
      const channel = LIVE[player];
      const first = Math.floor(Date.now() / 1_000) - PROGRAM_SECONDS;
      const programs = Array.from({ length: 12 }, (_, nth) => {
        const start = first + nth * PROGRAM_SECONDS;
        return { title: `Program ${nth}`, start, stop: start + PROGRAM_SECONDS };
      });
      await appliance.operate('POST', '/admin/v1/epg/import?accept=true', { [channel]: programs });
      const page = await openPackagePage(browser, site, appliance.demo, player);
      try {
        await page.start(channel);
        const until = performance.now() + BORDERS_WITHIN_MS;
        let rule;
        do {
          await page.answerPin(appliance.demo.pinCode); // programs of the night need it
          await page.evaluate((wait) => new Promise((done) => setTimeout(done, wait)), LOOK_MS);
          const { out } = await appliance.command('lab', 'check', '--partner', 'demo', '--json').ended;
          rule = JSON.parse(out).rules.find(({ id }) => id === 'entitlement-at-border');
        } while (rule.result === 'notSeen' && performance.now() < until);
        assert.equal(rule.result, 'passed', JSON.stringify(rule, null, 1));
        assert.deepEqual(await page.complaints(), []);
      } finally {
        await page.close();
        await appliance.stop();
      }
    });
  }
});

// A page made of @playgate/client under the shipped scenarios of the lab, with each adapter. That takes half an hour, so it runs with
// SCENARIOS=all only.
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
/** Keys and offers are of DASH only, and so is the channel with programmes that need the PIN. */
const HLS = 'asset-gone,blackout,restart,slow-network,stolen-stream,token-expired,clock-change';

const PLAYERS = process.env.SCENARIOS === 'all' ? ['shaka', 'dashjs', 'hlsjs'] : [];

describe('a page made of the packages', { concurrency: 1 }, () => {
  let browser, site;

  before(async () => {
    if (skip) return;
    site = await startSite();
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await site?.stop();
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
        scenario = pathname === '/start' ? searchParams.get('scenario') : null;
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
          if (scenario) await page.playAgain(/revoked/i.test(scenario) ? demo.vod.premium : LIVE[player], scenario);
          await page.evaluate((wait) => new Promise((done) => setTimeout(done, wait)), LOOK_MS);
        }
        const { code, out, err } = await run.ended;
        const report = JSON.parse(out);
        const failed = report.rules?.filter(({ result }) => result === 'failed');
        assert.deepEqual(failed, [], JSON.stringify(failed, null, 1));
        const stuck = report.scenarios.filter(({ passed }) => !passed);
        assert.deepEqual(stuck, [], JSON.stringify(stuck, null, 1));
        assert.equal(code, 0, err);
        const unseen = report.rules.filter(({ result }) => result === 'notSeen').map(({ id }) => id);
        console.log(`${player}: not seen: ${unseen.join(', ') || 'none'}`);
        assert.deepEqual(await page.complaints(), []);
      } finally {
        control.close();
        await page.close();
        await appliance.stop();
      }
    });
  }
});

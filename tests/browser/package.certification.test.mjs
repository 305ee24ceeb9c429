// A page made of @playgate/client under the shipped scenarios of the lab. The short form runs three; SCENARIOS=all certifies the page
// whole with each adapter, which takes half an hour.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { openPackagePage } from './lib/package.mjs';
import { startSite } from './lib/site.mjs';

const TIMEOUT_MS = 1_500_000;
/** The scenario that is about a film with an offer. */
const REVOKED = 'Revoked in mid-play';
const LOOK_MS = 1_000;
const LIVE = { shaka: 'open', dashjs: 'open', hlsjs: 'news' };
const SHORT = 'blackout,stolen-stream,token-expired';
/** Keys and offers are of DASH only, and so is the channel with programmes that need the PIN. */
const HLS = 'asset-gone,blackout,restart,slow-network,stolen-stream,token-expired,clock-change';

const long = process.env.SCENARIOS === 'all';

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

  for (const player of long ? ['shaka', 'dashjs', 'hlsjs'] : ['shaka']) {
    test(`is certified with ${player}`, { skip, timeout: TIMEOUT_MS }, async () => {
      const appliance = await startAppliance({ PLAYGATE_PLAYBACK_DEVICES: '20' });
      const { demo } = appliance;
      const only = long ? (player === 'hlsjs' ? ['--only', HLS] : []) : ['--only', SHORT];
      const page = await openPackagePage(browser, site, demo, player);
      try {
        const run = appliance.command('lab', 'run', 'certification', '--partner', 'demo', '--limit', '2m', '--json', ...only);
        let over = false;
        run.ended.then(() => (over = true));
        while (!over) {
          await page.answerPin(demo.pinCode);
          const { scenario } = await appliance.operate('GET', '/admin/v1/partners/demo/scenario');
          const asset = scenario === REVOKED ? demo.vod.premium : LIVE[player];
          if (!over) await page.playAgain(asset, scenario);
          await page.evaluate((wait) => new Promise((done) => setTimeout(done, wait)), LOOK_MS);
        }
        const { code, out, err } = await run.ended;
        const report = JSON.parse(out);
        const failed = report.rules?.filter(({ result }) => result === 'failed');
        assert.deepEqual(failed, [], JSON.stringify(failed, null, 1));
        assert.equal(code, 0, `${err}\n${JSON.stringify(report.scenarios, null, 1)}`);
        if (long) {
          const unseen = report.rules.filter(({ result }) => result === 'notSeen').map(({ id }) => id);
          console.log(`${player}: not seen: ${unseen.join(', ') || 'none'}`);
        }
        assert.deepEqual(await page.complaints(), []);
      } finally {
        await page.close();
        await appliance.stop();
      }
    });
  }
});

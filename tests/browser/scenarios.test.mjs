// Unmodified players under the shipped scenarios of the lab: `playgate lab run` disturbs a partner of their own, and they get
// through it. The short form runs a few; SCENARIOS=all runs every scenario with every player, which takes ten minutes.
import assert from 'node:assert/strict';
import { openLab } from './lib/lab.mjs';
import { onAppliance } from './lib/stage.mjs';
import { openViewer } from './lib/viewer.mjs';
import { DASHJS, HLSJS, SHAKA } from './lib/ways.mjs';

const LOOK_MS = 1_000;
const LIVE = { shaka: 'open', dashjs: 'open', hlsjs: 'news' };
const SHORT = [
  ['token-expired', SHAKA],
  ['blackout', DASHJS],
  ['license-server', SHAKA],
  ['stolen-stream', HLSJS],
];
// Keys and offers are of DASH only.
const DASH_ONLY = ['license-server', 'revoked'];
const SCENARIOS = [
  'asset-gone', 'blackout', 'license-server', 'pin-border', 'restart', 'revoked', 'slow-network', 'stolen-stream', 'token-expired',
  'clock-change', // last, because it moves the clock of all partners
];
const ALL = SCENARIOS.flatMap((scenario) =>
  [SHAKA, DASHJS, HLSJS].filter((how) => how !== HLSJS || !DASH_ONLY.includes(scenario)).map((how) => [scenario, how]),
);

const long = process.env.SCENARIOS === 'all';

/** Presses play, again after each error as viewers do, until the run has ended; it must have passed. */
async function playThrough(run, { page, stands, start }) {
  let over = false;
  run.ended.then(() => (over = true));
  while (!over) {
    if (await stands()) await start();
    for (let waited = 0; waited < 8 && !over; waited += 1) await page.waitForTimeout(LOOK_MS);
  }
  const { code, out, err } = await run.ended;
  assert.equal(code, 0, err);
  assert.ok(JSON.parse(out).passed, out);
}

onAppliance('a player in the lab', {}, (test) => {
  for (const [scenario, how] of long ? ALL : SHORT) {
    test(`gets through ${scenario}: ${how.player}`, async (_, { appliance, browser, site, demo }) => {
      const name = `${scenario} ${how.player}`;
      const { accessToken } = await appliance.operate('POST', '/admin/v1/partners', { name, kind: 'lab' });
      await appliance.operate('POST', `/admin/v1/partners/${encodeURIComponent(name)}/reset`, { fixture: 'demo' });
      const run = appliance.command('lab', 'run', scenario, '--partner', name, '--wait', '--json');
      await run.said('waiting for the first request');
      const viewer = await openViewer(browser, site, { ...demo, partnerToken: accessToken });
      try {
        await viewer.logIn();
        const asset = scenario === 'revoked' ? demo.vod.premium : LIVE[how.player];
        const stands = async () => (await viewer.position()) === null;
        await playThrough(run, { page: viewer.page, stands, start: () => viewer.start(asset, how) });
      } finally {
        await viewer.close();
      }
    });
  }
});

// It beats as often as the interface says, so that a run takes about a minute.
onAppliance('the player page in the lab', { settings: { PLAYGATE_PLAYBACK_DEVICES: '20' } }, (test) => {
  for (const scenario of long ? SCENARIOS : ['license-server']) {
    test(`gets through ${scenario}`, async (_, { appliance, browser, demo }) => {
      await appliance.operate('POST', '/admin/v1/partners/demo/reset', { fixture: 'demo' });
      const run = appliance.command('lab', 'run', scenario, '--partner', 'demo', '--wait', '--json');
      await run.said('waiting for the first request');
      const lab = await openLab(browser, demo);
      try {
        const asset = scenario === 'revoked' ? demo.vod.premium : demo.livestreams.open;
        const stands = () => lab.page.getByText('nothing plays').isVisible();
        await playThrough(run, { page: lab.page, stands, start: () => lab.play(asset) });
      } finally {
        await lab.close();
      }
    });
  }
});

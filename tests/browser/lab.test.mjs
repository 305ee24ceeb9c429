// The lab's player page and the demo's page: what they play by the browser's own means, and how they meet what the interface answers.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { barriers } from './lib/console.mjs';
import { openLab } from './lib/lab.mjs';

const TEST_TIMEOUT_MS = 180_000;
// Each page is a device of the demo's user.
const DEVICES = { PLAYGATE_PLAYBACK_DEVICES: '20' };

describe('the lab player', { concurrency: 3 }, () => {
  let appliance, browser;

  before(async () => {
    if (skip) return;
    appliance = await startAppliance(DEVICES);
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await appliance?.stop();
  });

  const onPage = (name, steps, options) =>
    test(name, { skip, timeout: TEST_TIMEOUT_MS }, async () => {
      const lab = await openLab(browser, appliance.demo, options);
      try {
        await steps(lab, appliance.demo);
      } finally {
        await lab.close();
      }
    });

  onPage('plays the encrypted film with one license and ends its session', async (lab, { vod }) => {
    await lab.sees('encrypted, all ages', `[data-asset="${vod.open}"]`);
    await lab.play(vod.open);
    assert.ok(await lab.plays(), 'no decryption module is in use');
    assert.deepEqual(lab.statuses('POST', '/clearkey/license'), [200]);
    await lab.page.click('#stop');
    await lab.hears('DELETE', '/heartbeat', 204);
    await lab.sees('nothing plays', '#facts');
  });

  // The control of the test above: pictures come from decryption with the right key and nothing else.
  onPage('shows nothing of the encrypted film with a wrong key', async (lab, { vod }) => {
    await lab.page.route('**/clearkey/license', async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      for (const key of body.keys) key.k = (key.k[0] === 'A' ? 'B' : 'A') + key.k.slice(1);
      await route.fulfill({ response, json: body });
    });
    await lab.play(vod.open);
    await lab.sees('This cannot be played at present', 'playgate-player');
    await lab.hears('DELETE', '/heartbeat', 204);
  });

  onPage('plays a film in the clear without a license', async (lab, { vod }) => {
    await lab.play(vod.clear);
    assert.equal(await lab.plays(), false);
    assert.deepEqual(lab.statuses('POST', '/license'), []);
  });

  onPage('plays a livestream, goes back and returns to the live point', async (lab, { livestreams }) => {
    await lab.play(livestreams.open);
    await lab.plays();
    const live = await lab.position();
    assert.ok(Math.abs(live - Date.now() / 1000) < 60, `it plays at ${live}`);
    await lab.page.click('#back');
    await lab.plays();
    assert.ok((await lab.position()) < live);
    await lab.page.click('playgate-player .live');
    await lab.plays();
    assert.ok((await lab.position()) > live);
    await lab.page.selectOption('playgate-player .quality', { label: '180p' });
    await lab.page.waitForFunction(() => player.video.videoHeight === 180);
  });

  onPage('plays a finished broadcast in catch-up', async (lab, demo) => {
    await lab.play(demo.catchup);
    await lab.plays();
    const headers = { 'Service-AccessToken': demo.partnerToken };
    const answer = await fetch(new URL(`/api/schedule/v1/broadcasts/${demo.catchup}`, demo.baseUrl), { headers });
    const { start } = await answer.json();
    const at = await lab.position();
    assert.ok(start <= at && at < start + 60, `it plays at ${at}, and the broadcast began at ${start}`);
  });

  onPage('asks for the PIN, again after a wrong one, and plays', async (lab, { pinCode }) => {
    await lab.page.click('#try-pin');
    await lab.enterPin('0000');
    await lab.sees('Attempts left: 4', 'playgate-player');
    await lab.enterPin(pinCode);
    await lab.plays();
    assert.deepEqual(lab.statuses('POST', '/entitlement/'), [403, 403, 200]);
    assert.equal(lab.statuses('POST', '/auth/email').length, 1, 'a 403 must not log out');
  });

  onPage('stops the picture at 552 and goes on where there are rights', async (lab) => {
    await lab.page.click('#try-552');
    await lab.plays();
    await lab.hears('POST', '/heartbeat', 552);
    await lab.sees('This program cannot be shown here', 'playgate-player');
    const frames = () => lab.page.evaluate(() => player.video.getVideoPlaybackQuality().totalVideoFrames);
    assert.equal(await lab.page.evaluate(() => player.video.paused), true);
    const stood = await frames();
    await lab.page.waitForTimeout(1_000);
    assert.equal(await frames(), stood);
    await lab.page.click('#back');
    await lab.plays();
    assert.deepEqual(lab.statuses('DELETE', '/heartbeat'), [], 'the session must stay open');
  });

  onPage('ends when it is displaced, and says so', async (lab, { livestreams }) => {
    await lab.play(livestreams.open);
    await lab.plays();
    await lab.page.click('#try-displace');
    // By a heartbeat or by the playlist, whichever comes first.
    await lab.sees('Playback has moved', 'playgate-player');
    await lab.sees('nothing plays (displaced)', '#facts');
  });

  onPage('logs in once when its token has expired, and plays on', async (lab, { livestreams }) => {
    await lab.play(livestreams.open);
    await lab.plays();
    const logIns = () => lab.statuses('POST', '/auth/email').length;
    const refused = () => lab.statuses('POST', '/api/').filter((status) => status === 401).length;
    const before = logIns() + 1; // the button logs in, too
    await lab.page.click('#try-expired');
    await lab.hears('POST', '/api/', 401);
    // One for each refused request: a heartbeat, and events that were sent at the same time. The picture goes on from the
    // buffer meanwhile.
    const settled = () => logIns() >= before + refused() && lab.statuses('POST', '/heartbeat').at(-1) === 200;
    while (!settled()) await lab.page.waitForTimeout(200);
    await lab.plays();
    assert.equal(logIns(), before + refused());
    assert.ok(refused() <= 2, `${refused()} requests were refused`);
  });

  for (const [width, height, colorScheme] of [
    [390, 844, 'light'],
    [390, 844, 'dark'],
    [1280, 900, 'light'],
  ]) {
    const title = `fits ${width} px in ${colorScheme} and shows each call without its secrets`;
    const check = async (lab, { vod, partnerToken }) => {
      await lab.play(vod.open);
      await lab.plays();
      const wide = await lab.page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `the page is ${wide} px wide`);
      const preflight = lab.page.locator('#calls li', { hasText: 'preflight' }).first();
      await preflight.locator('summary').click();
      await preflight.getByText('heartbeatInterval').waitFor();
      const shown = await preflight.innerText();
      assert.match(shown, /Service-AccessToken: [0-9a-f]{8}…/);
      assert.ok(!shown.includes(partnerToken) && !/pgu_[\w-]{20}/.test(shown));
      assert.deepEqual(await barriers(lab.page), []);
    };
    onPage(title, check, { viewport: { width, height }, colorScheme });
  }
});

test('the lab player lists more livestreams than one request may name', { skip, timeout: TEST_TIMEOUT_MS }, async () => {
  const appliance = await startAppliance();
  const browser = await launch();
  try {
    const livestream = Array.from({ length: 250 }, (_, i) => ({ id: `many-${i}`, playlist: { dash: 'origin:none.mpd' } }));
    await appliance.operate('POST', '/admin/v1/catalog/import?merge=true', { livestream });
    const lab = await openLab(browser, appliance.demo);
    await lab.page.waitForSelector('[data-asset="many-249"]');
    assert.deepEqual(lab.statuses('GET', '/broadcasts/live'), [200, 200]);
    await lab.close();
  } finally {
    await browser.close();
    await appliance.stop();
  }
});

for (const [width, colorScheme] of [[390, 'light'], [1280, 'dark']]) {
  test(`the page of the demo plays at once, and what is chosen, at ${width} px in ${colorScheme}`, { skip, timeout: TEST_TIMEOUT_MS }, async () => {
    const appliance = await startAppliance(DEVICES);
    const browser = await launch();
    try {
      const { watchUrl, baseUrl, pinCode } = appliance.demo;
      const lab = await openLab(browser, { labUrl: watchUrl, baseUrl }, { viewport: { width, height: 900 }, colorScheme });
      await lab.plays();
      const { current } = await lab.page.evaluate(() => player.client.guide.live([player.session.assetId]).then((live) => live[player.session.assetId]));
      await lab.sees(current.title, '#title');
      assert.deepEqual(lab.statuses('POST', '/preflight/'), [200], 'client and title, set one after the other, are one start');
      await lab.play('film-adult');
      await lab.enterPin(pinCode);
      assert.ok(await lab.plays(), 'no decryption module is in use');
      await lab.sees('The Test Card, Uncut', '#title');
      assert.deepEqual(lab.statuses('POST', '/auth/email'), [200]);
      assert.ok((await lab.page.evaluate(() => document.documentElement.scrollWidth)) <= width);
      assert.deepEqual(await barriers(lab.page), []);
      await lab.close();
    } finally {
      await browser.close();
      await appliance.stop();
    }
  });
}

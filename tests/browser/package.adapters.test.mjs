// @playgate/client in a browser: each adapter plays, keeps to the interface, and survives what happens to a page.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { HIGH_PLAYBACK_LIMITS, startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { openPackagePage } from './lib/package.mjs';
import { startSite } from './lib/site.mjs';

const TIMEOUT_MS = 300_000;

describe('@playgate/client', { concurrency: 2 }, () => {
  let appliance, browser, site;

  before(async () => {
    if (skip) return;
    appliance = await startAppliance(HIGH_PLAYBACK_LIMITS);
    site = await startSite();
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await site?.stop();
    await appliance?.stop();
  });

  const onPage = (name, player, steps, options) =>
    test(name, { skip, timeout: TIMEOUT_MS }, async () => {
      const page = await openPackagePage(browser, site, appliance.demo, player, options);
      try {
        await steps(page, appliance.demo);
        assert.deepEqual(await page.complaints(), []);
      } finally {
        await page.close();
      }
    });

  for (const player of ['shaka', 'dashjs', 'builtin']) {
    onPage(`plays an encrypted film with its PIN: ${player}`, player, async (page, { vod, pinCode }) => {
      await page.start(vod.adult);
      await page.state('pin');
      await page.enterPin('0000');
      await page.sees(/PIN/);
      await page.enterPin(pinCode);
      await page.plays();
      assert.ok(await page.encrypted());
      await page.seek(5);
      await page.plays();
      await page.stop();
      assert.deepEqual(page.statuses('DELETE', '/heartbeat'), [204]);
    });

    onPage(`plays live and shifted, by Unix time: ${player}`, player, async (page, { livestreams, offsetOpen }) => {
      await page.start(livestreams.open);
      await page.plays();
      assert.ok(Math.abs(await page.behind()) < 60, `${await page.behind()} s behind`);
      await page.start(livestreams.open, { offset: offsetOpen });
      await page.plays();
      const behind = await page.behind();
      assert.ok(Math.abs(behind + offsetOpen) < 30, `${behind} s behind`);
      await page.evaluate(() => session.goLive());
      await page.plays();
      assert.ok((await page.behind()) < 60, `${await page.behind()} s behind`);
      await page.stop();
    });

    onPage(`plays a broadcast that is over by its Unix time: ${player}`, player, async (page, { catchup }) => {
      await page.start(catchup);
      await page.plays();
      const beat = await page.heartbeat();
      assert.ok(Number(beat['service-play-timestamp']) > 1e9, beat['service-play-timestamp']);
      await page.stop();
    });
  }

  onPage('plays live in HLS: hlsjs', 'hlsjs', async (page) => {
    await page.start('news');
    await page.plays();
    assert.ok(Math.abs(await page.behind()) < 60, `${await page.behind()} s behind`);
    await page.stop();
  });

  onPage('plays a film in HLS from a position: hlsjs', 'hlsjs', async (page, { vod }) => {
    await page.start(vod.clear, { position: 4 });
    await page.plays();
    assert.ok((await page.evaluate(() => session.position)) >= 4);
    await page.stop();
  });

  onPage('says that this browser cannot play: video', 'video', async (page, { vod }) => {
    await page.start(vod.open);
    await page.state('ended');
    assert.equal(await page.evaluate(() => session.error.code), 'DRM_NOT_SUPPORTED');
  });

  onPage('says that an asset has no way that the player has: hlsjs', 'hlsjs', async (page, { vod }) => {
    await page.start(vod.open);
    await page.state('ended');
    await page.sees(/./);
  });

  onPage('ends the session and sends its events when the page closes', 'shaka', async (page, demo) => {
    await page.start(demo.vod.open);
    await page.plays();
    const sessionId = await page.evaluate(async () => {
      const [id, sessions] = await Promise.all([client.deviceId, client.account.sessions()]);
      return sessions.find(({ kind, deviceId }) => kind === 'playback' && deviceId === id).sessionId;
    });
    const { userId } = await page.evaluate(() => client.user);
    await page.leave();
    // The browser does not show requests that outlive their page; the service does.
    const heard = async (route) => {
      const query = new URLSearchParams({ route, user: userId, wait: '10' });
      const answer = await fetch(new URL(`/api/lab/v1/requests?${query}`, demo.baseUrl), { headers: { 'Service-AccessToken': demo.partnerToken } });
      return answer.json();
    };
    const until = Date.now() + 60_000;
    for (;;) {
      const ends = JSON.stringify(await heard('end_playback'));
      if (ends.includes(sessionId)) break;
      assert.ok(Date.now() < until, ends);
    }
  });

  for (const [player, asset] of [['shaka', 'open'], ['dashjs', 'open'], ['hlsjs', 'news'], ['builtin', 'open']]) {
    onPage(`plays on when the network comes back, in the same session: ${player}`, player, async (page) => {
      await page.start(asset);
      await page.plays();
      await page.offline(true);
      await page.stands();
      assert.notEqual(await page.evaluate(() => session.state), 'ended');
      await page.offline(false);
      await page.plays();
      await page.heartbeat(200);
      assert.equal(page.statuses('POST', '/preflight/').length, 1);
      await page.stop();
    });
  }

  onPage('plays with an hour of wrong clock', 'shaka', async (page, { livestreams }) => {
    await page.start(livestreams.open);
    await page.plays();
    const beat = await page.heartbeat(200);
    assert.ok(Math.abs(Number(beat['service-play-timestamp']) - Date.now() / 1000) < 60);
    await page.stop();
  }, { init: () => { const now = Date.now; Date.now = () => now() + 3_600_000; } });

  onPage('plays where storage is blocked', 'shaka', async (page, { vod }) => {
    await page.start(vod.open);
    await page.plays();
    await page.stop();
  }, { init: () => Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('denied', 'SecurityError'); } }) });

  onPage('of two tabs plays in the one that started last, and the other says why', 'shaka', async (page, { vod }) => {
    await page.start(vod.open);
    await page.plays();
    const other = await page.otherTab();
    await other.start(vod.open);
    await other.plays();
    await page.state('ended');
    assert.equal(await page.evaluate(() => session.reason), 'displaced');
    assert.equal(await other.evaluate(() => session.state), 'playing');
    assert.equal(other.statuses('POST', '/auth/email').length, 0, 'the log-in of the first tab is used');
    await other.stop();
  });

  onPage('says so where the service does not allow the page (CORS)', 'shaka', async (page, { vod }) => {
    await page.evaluate(() => client.ready);
    const error = await page.evaluate(async ([film]) => {
      const { PlaygateClient, PlaybackSession } = await import('/client/playgate-client.js');
      // The page's own server allows nobody, and answers no interface.
      const wrong = new PlaygateClient({ baseUrl: location.origin.replace('127.0.0.1', 'localhost'), partnerToken: 'x' });
      return wrong.playback.entitlement(film).catch(() => wrong.request('GET', 'api', { retry: { repeats: 0 } })).catch(({ code, message }) => ({ code, message }));
    }, [vod.open]);
    assert.equal(error.code, 'NO_ANSWER');
    assert.match(error.message, /CORS/);
  });
});

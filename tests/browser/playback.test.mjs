// Playgate end to end, as a viewer meets it: the demo, a partner's page on another origin, an unmodified
// third-party player, a real browser. `npm ci && npm test` here; needs Chromium and a built binary.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { assertShowsCard } from './lib/picture.mjs';
import { startSite } from './lib/site.mjs';

const TEST_TIMEOUT_MS = 90_000;
const LICENSE_REQUEST_FAILED = 6007; // Shaka's code
const VIDEO_ERROR = 3016; // Shaka's code for what the browser's decoder reports

describe('a browser player', { timeout: 6 * TEST_TIMEOUT_MS }, () => {
  let appliance, site, browser, demo;

  before(async () => {
    if (skip) return;
    appliance = await startAppliance();
    demo = appliance.demo;
    site = await startSite();
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await site?.stop();
    await appliance?.stop();
  });

  /** Runs `steps` on a fresh page of a fresh browser profile. */
  const onPage = (title, steps) =>
    test(title, { skip, timeout: TEST_TIMEOUT_MS }, async () => {
      const context = await browser.newContext({ locale: 'en-GB' });
      try {
        await steps(await openPage(context));
      } finally {
        await context.close();
      }
    });

  const openPage = async (context) => {
    const page = await context.newPage();
    await page.goto(site.address);
    await page.evaluate(
      ([baseUrl, partnerToken]) => Object.assign(client, { baseUrl, partnerToken }),
      [demo.baseUrl, demo.partnerToken],
    );
    return page;
  };

  const signUp = async (page) => {
    const answer = await page.evaluate(() =>
      client.identify('PUT', `viewer-${crypto.randomUUID()}@example.org`, 'a long enough pass phrase'),
    );
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  };

  /** Entitlement and preflight; the preflight's answer. */
  const prepare = async (page, assetId, drm, protocol, options = {}) => {
    const entitlement = await page.evaluate(([id, o]) => client.entitle(id, o), [assetId, options]);
    assert.equal(entitlement.status, 200, JSON.stringify(entitlement.body));
    const preflight = await page.evaluate((args) => client.preflight(...args), [
      assetId,
      entitlement.body.token,
      drm,
      protocol,
    ]);
    assert.equal(preflight.status, 200, JSON.stringify(preflight.body));
    return preflight.body;
  };

  const play = (page, preflight, options) => page.evaluate((args) => client.play(...args), [preflight, options]);
  const figures = (page) => page.evaluate(() => client.figures());

  /** Waits until the player stands past `position` or has failed. */
  const playedOrFailed = async (page, position) => {
    await page.waitForFunction((p) => client.video.currentTime > p || client.playerErrors.length > 0, position, {
      timeout: 30_000,
    });
    return figures(page);
  };

  const playedPast = async (page, position) => {
    const now = await playedOrFailed(page, position);
    assert.deepEqual(now.errors, [], `the player failed: ${await page.textContent('#message')}`);
    return now;
  };

  /** Pictures, their movement and the tone: what proves that play is real. */
  const assertPlays = async (page) => {
    const first = await playedPast(page, 1);
    const shownFirst = await assertShowsCard(page);
    const second = await playedPast(page, first.position + 1.5);
    const shownSecond = await assertShowsCard(page);
    assert.ok(second.frames - first.frames > 20, `frames: ${first.frames}, then ${second.frames}`);
    assert.ok(shownSecond - shownFirst > 1, `the picture moved from ${shownFirst} s to ${shownSecond} s`);
    const sound = await page.evaluate(() => client.listen());
    assert.ok(Math.abs(sound.hertz - 440) < 15 && sound.level > -70, JSON.stringify(sound));
  };

  onPage('signs up, reads what is on, plays the encrypted clip, beats and reports', async (page) => {
    const user = await signUp(page);
    assert.ok(user.userId && user.newUser, JSON.stringify(user));

    const channel = demo.livestreams.open;
    const schedule = await page.evaluate(
      (id) => client.call('GET', `/api/schedule/v1/broadcasts/live?livestreams=${encodeURIComponent(id)}`),
      channel,
    );
    assert.equal(schedule.status, 200, JSON.stringify(schedule.body));
    const { current } = schedule.body[channel];
    const now = Date.now() / 1000;
    assert.ok(current.start <= now && now < current.stop, JSON.stringify(current));

    const preflight = await prepare(page, demo.vod.open, 'clearkey', 'dash');
    assert.equal(preflight.heartbeatInterval, 10);
    await play(page, preflight);
    await assertPlays(page);
    assert.equal((await figures(page)).encrypted, true, 'the player used no decryption module');
    const licenses = await page.evaluate(() => client.licenses);
    assert.ok(licenses.length > 0 && licenses.every((status) => status === 200), `licenses: ${licenses}`);

    for (const pause of [0, 1500]) {
      await page.waitForTimeout(pause);
      const beat = await page.evaluate((address) => client.heartbeat(address), preflight.heartbeat);
      assert.equal(beat.status, 200, JSON.stringify(beat.body));
      assert.equal(beat.body.interval, 10);
      assert.ok(Math.abs(beat.body.serverTime - Date.now() / 1000) < 5, JSON.stringify(beat.body));
    }

    const events = await page.evaluate(
      ([assetId, playlist]) =>
        ['playback_started', 'playback_buffering', 'playback_paused'].map((action, seqId) => ({
          timestamp: Math.floor(Date.now() / 1000),
          source: 'APP_ACTION',
          component: 'player/shaka',
          action,
          seqId,
          context: {
            asset_id: assetId,
            playlist_url: playlist,
            playback_position: client.video.currentTime,
            device_id: client.device['Service-Play-DeviceId'],
          },
          extra: { player_version: shaka.Player.version },
        })),
      [demo.vod.open, preflight.playlist],
    );
    const send = () => page.evaluate((batch) => client.telemetry(batch), events);
    assert.deepEqual(await send(), { status: 202, body: { accepted: 3, duplicates: 0, rejected: [] } });
    assert.deepEqual(await send(), { status: 202, body: { accepted: 0, duplicates: 3, rejected: [] } });

    const end = await page.evaluate((address) => client.heartbeat(address, { method: 'DELETE' }), preflight.heartbeat);
    assert.equal(end.status, 204);
    const late = await page.evaluate((address) => client.heartbeat(address), preflight.heartbeat);
    assert.equal(late.status, 410);
    assert.equal(late.body.error.code, 'SESSION_ENDED');
  });

  onPage("shows our error when another user asks for the first one's license", async (page) => {
    await signUp(page);
    const preflight = await prepare(page, demo.vod.open, 'clearkey', 'dash');
    await signUp(page); // the page now carries the second user's token with the first one's playback headers
    await play(page, preflight);
    const seen = await playedOrFailed(page, 1);
    assert.deepEqual([...new Set(seen.errors)], [LICENSE_REQUEST_FAILED]);
    assert.equal(seen.frames, 0);
    assert.equal(await page.evaluate(() => client.licenses[0]), 403);
    const { error } = await page.evaluate(() => client.refusal);
    assert.equal(error.code, 'ENTITLEMENT_INVALID');
    assert.ok(error.user_message.length > 0);
    assert.equal(await page.textContent('#message'), error.user_message);
  });

  // The control of the first test: it shows that pictures come from decryption with the right key and nothing else.
  onPage('shows nothing of the encrypted clip with wrong keys', async (page) => {
    await signUp(page);
    await play(page, await prepare(page, demo.vod.open, 'clearkey', 'dash'), { tamperWithKeys: true });
    const seen = await playedOrFailed(page, 1);
    assert.ok(seen.errors.includes(VIDEO_ERROR), JSON.stringify(seen));
    assert.deepEqual(await page.evaluate(() => client.licenses), [200]);
    await assert.rejects(assertShowsCard(page), /bar 0 is/);
  });

  for (const protocol of ['hls', 'dash']) {
    onPage(`plays the clear clip by ${protocol}`, async (page) => {
      await signUp(page);
      const preflight = await prepare(page, demo.vod.clear, 'none', protocol);
      assert.equal(preflight.license, undefined);
      await play(page, preflight);
      await assertPlays(page);
      assert.equal((await figures(page)).encrypted, false);
      const beat = await page.evaluate((address) => client.heartbeat(address), preflight.heartbeat);
      assert.equal(beat.status, 200, JSON.stringify(beat.body));
    });
  }

  // 552 is no registered status: this shows that it crosses origins and reaches a script as it was sent.
  onPage('is told 552 while the broadcast has no live rights, and may go on elsewhere', async (page) => {
    const login = await page.evaluate((args) => client.identify('POST', ...args), [demo.identity, demo.accessKey]);
    assert.equal(login.status, 200, JSON.stringify(login.body));
    const preflight = await prepare(page, demo.livestreams.blackout, 'clearkey', 'dash', {
      offset: demo.offsetOpen,
      pinCode: demo.pinCode,
    });
    const beatAt = (offset) =>
      page.evaluate(
        ([address, o]) => client.heartbeat(address, { position: Date.now() / 1000 + o }),
        [preflight.heartbeat, offset],
      );
    assert.equal((await beatAt(demo.offsetOpen)).status, 200);
    const refused = await beatAt(0);
    assert.equal(refused.status, 552);
    assert.equal(refused.body.error.code, 'NO_LIVE_RIGHTS');
    assert.equal(await page.textContent('#message'), refused.body.error.user_message);
    assert.equal((await beatAt(demo.offsetOpen)).status, 200);
  });
});

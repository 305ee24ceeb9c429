// Playgate end to end, as a viewer meets it: the demo, a partner's page on another origin, unmodified third-party
// players, a real browser. `npm ci && npm test` here; needs Chromium and a built binary.
import assert from 'node:assert/strict';
import { assertShowsCard } from './lib/picture.mjs';
import { onAppliance } from './lib/stage.mjs';
import { DASHJS, HLSJS, RXPLAYER, SHAKA, VIDEOJS, inTheClear } from './lib/ways.mjs';

// The players' own codes for what the browser's decoder reports, and for a license that is refused.
const CODES = { shaka: { decoder: 3016, license: 6007 }, dashjs: { decoder: 3, license: 114 } };

onAppliance('video on demand', {}, (test) => {
  test('is found, played, reported and ended', async (viewer, { demo }) => {
    const { page } = viewer;
    const user = await viewer.signUp();
    assert.ok(user.userId && user.newUser, JSON.stringify(user));

    const channel = demo.livestreams.open;
    const schedule = await viewer.call('GET', `/api/schedule/v1/broadcasts/live?livestreams=${channel}`);
    assert.equal(schedule.status, 200, JSON.stringify(schedule.body));
    const { current } = schedule.body[channel];
    const now = Date.now() / 1000;
    assert.ok(current.start <= now && now < current.stop, JSON.stringify(current));

    await viewer.start(demo.vod.open, SHAKA);
    await viewer.plays();
    const [preflight] = viewer.answers('POST', '/preflight/');
    const { heartbeatInterval, heartbeat, playlist } = await preflight.response.json();
    assert.equal(heartbeatInterval, 10);
    const [beat] = viewer.answers('POST', '/heartbeat');
    const { interval, serverTime } = await beat.response.json();
    assert.equal(interval, 10);
    assert.ok(Math.abs(serverTime - Date.now() / 1000) < 30, `the server says ${serverTime}`);

    const events = await page.evaluate(
      ([assetId, address]) =>
        ['playback_started', 'playback_buffering', 'playback_paused'].map((action, seqId) => ({
          timestamp: Math.floor(Date.now() / 1000),
          source: 'APP_ACTION',
          component: 'player/shaka',
          action,
          seqId,
          context: {
            asset_id: assetId,
            playlist_url: address,
            playback_position: client.position(),
            device_id: client.service.device['Service-Play-DeviceId'],
          },
          extra: { player_version: shaka.Player.version },
        })),
      [demo.vod.open, playlist],
    );
    const report = () => page.evaluate((batch) => client.service.telemetry(batch), events);
    assert.deepEqual(await report(), { status: 202, body: { accepted: 3, duplicates: 0, rejected: [] } });
    assert.deepEqual(await report(), { status: 202, body: { accepted: 0, duplicates: 3, rejected: [] } });

    await viewer.ends();
    assert.deepEqual(viewer.statuses('DELETE', '/heartbeat'), [204]);
    viewer.isHeardWith(200);
    const late = await page.evaluate(
      (address) => client.service.heartbeat(address, { position: 1, bitrate: 0, width: 0, height: 0 }),
      heartbeat,
    );
    assert.equal(late.status, 410);
    assert.equal(late.body.error.code, 'SESSION_ENDED');
  });

  const titles = [
    ['the encrypted clip', 'open', SHAKA],
    ['the encrypted clip', 'open', DASHJS],
    ['the clear clip', 'clear', inTheClear(SHAKA)],
    ['the clear clip', 'clear', inTheClear(SHAKA, 'hls')],
    ['the clear clip', 'clear', inTheClear(DASHJS)],
    ['the clear clip', 'clear', HLSJS],
    ['the encrypted clip', 'open', RXPLAYER],
    ['the clear clip', 'clear', VIDEOJS],
  ];
  for (const [title, asset, how] of titles) {
    test(`plays ${title} by ${how.protocol}: ${how.player}`, async (viewer, { demo }) => {
      await viewer.signUp();
      await viewer.start(demo.vod[asset], how);
      const { encrypted } = await viewer.plays();
      const licenses = viewer.statuses('POST', '/license');
      assert.equal(encrypted, asset === 'open', 'whether the player used a decryption module');
      assert.equal(licenses.length > 0, encrypted, `licenses: ${licenses}`);
      assert.ok(licenses.every((status) => status === 200), `licenses: ${licenses}`);
      viewer.isHeardWith(200);
      await viewer.stop();
      assert.deepEqual(viewer.statuses('DELETE', '/heartbeat'), [204]);
    });
  }

  for (const how of [SHAKA, DASHJS]) {
    const codes = CODES[how.player];

    // The control of the tests above: pictures come from decryption with the right key and nothing else.
    test(`shows nothing of the encrypted clip with wrong keys: ${how.player}`, async (viewer, { demo }) => {
      await viewer.signUp();
      await viewer.tamperWithKeys();
      await viewer.start(demo.vod.open, how);
      await viewer.failsAtOnce(codes.decoder);
      assert.ok(viewer.statuses('POST', '/license').every((status) => status === 200));
      await assert.rejects(assertShowsCard(viewer.page), /bar 0 is/);
    });

    test(`shows our words when another user asks for the license: ${how.player}`, async (viewer, { demo }) => {
      await viewer.signUp();
      const prepared = await viewer.prepare(demo.vod.open, how);
      await viewer.signUp(); // the page now carries the second user's token with the first one's playback headers
      await viewer.play(prepared);
      await viewer.failsAtOnce(codes.license);
      const [refusal] = viewer.answers('POST', '/license');
      assert.equal(refusal.status, 403);
      const { error } = await refusal.response.json();
      assert.equal(error.code, 'ENTITLEMENT_INVALID');
      assert.ok(error.user_message.length > 0);
      await viewer.isTold(error.user_message);
    });
  }

  for (const how of [SHAKA, DASHJS]) {
    test(`plays a finished broadcast in catch-up: ${how.player}`, async (viewer, { demo }) => {
      await viewer.signUp();
      const broadcast = await viewer.call('GET', `/api/schedule/v1/broadcasts/${demo.catchup}`);
      const { start, stop } = broadcast.body;
      assert.ok(stop < Date.now() / 1000);
      await viewer.start(demo.catchup, { ...how, since: start });
      const { position } = await viewer.plays();
      assert.ok(start < position && position < start + 30, `it is at ${position}, and the broadcast began at ${start}`);
      viewer.isHeardWith(200);
    });
  }
});

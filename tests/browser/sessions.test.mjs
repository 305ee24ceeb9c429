// What ends play or stands in its way, and how it goes on: the limit of streams, the age of an address, the PIN.
import assert from 'node:assert/strict';
import { onAppliance } from './lib/stage.mjs';
import { DASHJS, HLSJS, SHAKA } from './lib/ways.mjs';

const DAY = 24 * 60 * 60;
const ENDED = 'Playback has ended. Please start the program again.';
const FULL = 'Too many streams are running. Please stop one on another device.';
const PIN_WANTED = 'Please enter your PIN code.';
const PIN_WRONG = 'The PIN code is wrong.';

onAppliance('a playlist that is older than its token', {}, (test) => {
  const ways = [
    [SHAKA, 'open', 1001],
    [DASHJS, 'open', 25],
    [HLSJS, 'clear', 'manifestLoadError'],
  ];
  for (const [how, asset, code] of ways) {
    test(`is refused, and a new one plays: ${how.player}`, async (viewer, { appliance, demo }) => {
      await viewer.signUp();
      const prepared = await viewer.prepare(demo.vod[asset], how);
      const { playlist } = await viewer.answers('POST', '/preflight/')[0].response.json();
      assert.equal((await fetch(playlist)).status, 200);
      try {
        await appliance.operate('PUT', '/admin/v1/clock', { offset: DAY + 60 });
        await viewer.play(prepared);
        await viewer.failsAtOnce(code);
        assert.ok(viewer.statuses('GET', '/origin/').includes(403));
        await viewer.isTold(ENDED);

        await viewer.start(demo.vod[asset], how);
        await viewer.plays();
        viewer.isHeardWith(200);
      } finally {
        await appliance.operate('DELETE', '/admin/v1/clock');
      }
    });
  }

  test('stops the page in mid-play', async (viewer, { appliance, demo }) => {
    await viewer.signUp();
    await viewer.start(demo.livestreams.open, SHAKA);
    await viewer.plays();
    try {
      await appliance.operate('PUT', '/admin/v1/clock', { offset: DAY + 60 });
      await viewer.isTold(ENDED);
      assert.equal(await viewer.position(), null);
      await viewer.start(demo.livestreams.open, SHAKA);
      await viewer.plays();
    } finally {
      await appliance.operate('DELETE', '/admin/v1/clock');
    }
  });
});

const ONE_STREAM = { PLAYGATE_PLAYBACK_STREAMS_TOTAL: '1' };
const DISPLACING = { ...ONE_STREAM, PLAYGATE_PLAYBACK_WHEN_FULL: 'displace' };

onAppliance('a second device of a user who may play on one', { settings: DISPLACING }, (test) => {
  test('displaces the first, which stops and says so', async (first, { demo, join }) => {
    await first.logIn();
    await first.start(demo.livestreams.open, SHAKA);
    await first.plays();
    const second = await join();
    await second.logIn();
    await second.start(demo.livestreams.open, DASHJS);
    await first.isTold(ENDED);
    const last = first.answers('POST', '/heartbeat').at(-1);
    assert.equal(last.status, 410);
    assert.equal((await last.response.json()).error.code, 'SESSION_ENDED');
    assert.equal(await first.position(), null, 'the first page has let go of its player');
    await second.plays();
    second.isHeardWith(200);
  });
});

// The control of the test above: what ends the first stream there is the setting, not the second stream.
onAppliance('a second device where the first one is not displaced', { settings: ONE_STREAM }, (test) => {
  test('is refused, and the first plays on', async (first, { demo, join }) => {
    await first.logIn();
    await first.start(demo.livestreams.open, SHAKA);
    const { position } = await first.plays();
    const second = await join();
    await second.logIn();
    await second.start(demo.livestreams.open, DASHJS);
    await second.isTold(FULL);
    assert.deepEqual(second.statuses('POST', '/preflight/'), [409]);
    await first.playsPast(position + 1);
    first.isHeardWith(200);
    await first.stop();
    await second.start(demo.livestreams.open, DASHJS);
    await second.plays();
  });
});

onAppliance('a film for adults', {}, (test) => {
  for (const how of [SHAKA, DASHJS]) {
    test(`plays when its viewer has entered the PIN: ${how.player}`, async (viewer, { demo }) => {
      await viewer.logIn();
      await viewer.start(demo.vod.adult, how);
      await viewer.isAskedForPin();
      await viewer.isTold(PIN_WANTED);
      assert.deepEqual(viewer.statuses('POST', '/preflight/'), []);
      await viewer.enterPin('0000');
      await viewer.isTold(PIN_WRONG);
      await viewer.isAskedForPin();
      await viewer.enterPin(demo.pinCode);
      await viewer.plays();
      viewer.isHeardWith(200);
      assert.deepEqual(viewer.statuses('POST', '/entitlement/'), [403, 403, 200]);
      await viewer.isTold('');
    });
  }
});

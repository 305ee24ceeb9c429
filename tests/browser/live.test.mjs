// Livestreams of the lab: a clip that goes round for ever, with the Unix time as the player's. What is on, what was,
// and what may not be shown.
import assert from 'node:assert/strict';
import { forbidMatches, importGuide, serverTime } from './lib/guide.mjs';
import { onAppliance } from './lib/stage.mjs';
import { DASHJS, HLSJS, RXPLAYER, SHAKA, VIDEOJS } from './lib/ways.mjs';

const CLIP_SECONDS = 10;
const BEHIND_AT_MOST = 40; // seconds: the delay of live players, and a busy machine
const HOUR = 3_600;
const NO_RIGHTS = 'This program cannot be shown here. Please tune in again for the next one.';
const NOT_AVAILABLE = 'This program is not available at present.';
const PIN_WANTED = 'Please enter your PIN code.';

const assertLive = (position, now) =>
  assert.ok(now - BEHIND_AT_MOST < position && position <= now + 1, `the player is at ${position}, the server at ${now}`);

onAppliance('a livestream', { together: true }, (test) => {
  const channels = [
    [SHAKA, 'open'],
    [DASHJS, 'open'],
    [HLSJS, 'news'],
  ];
  for (const [how, channel] of channels) {
    test(`plays at the present, on and on: ${how.player}`, async (viewer, { appliance }) => {
      await viewer.signUp();
      await viewer.beatsAsTold();
      await viewer.start(channel, how);
      const { position } = await viewer.plays();
      assertLive(position, await serverTime(appliance));
      const seam = Math.ceil(position / CLIP_SECONDS) * CLIP_SECONDS;
      await viewer.playsPast(seam + CLIP_SECONDS / 2);
      await viewer.seesCard();
      assertLive(await viewer.position(), await serverTime(appliance));
      await viewer.hears('POST', '/heartbeat', 200, 2);
      viewer.isHeardWith(200);
    });
  }

  for (const how of [SHAKA, DASHJS]) {
    test(`plays what was on before: ${how.player}`, async (viewer) => {
      await viewer.signUp();
      await viewer.start('open', how);
      const { position } = await viewer.plays();
      await viewer.shift(position - HOUR);
      await viewer.arrivesAt(position - HOUR);
      await viewer.plays();
      const [, entitlement] = viewer.answers('POST', '/entitlement/');
      assert.equal(entitlement.status, 200);
      assert.match(entitlement.url, /offset=-36\d\d$/);
      viewer.isHeardWith(200);
    });
  }

  test('does not go back where no right reaches', async (viewer) => {
    await viewer.signUp();
    await viewer.start('news', HLSJS); // neither start-over nor rewind nor catch-up
    const { position } = await viewer.plays();
    await viewer.shift(position - HOUR / 6);
    await viewer.isTold(NOT_AVAILABLE);
    assert.equal(viewer.statuses('POST', '/entitlement/').at(-1), 403);
    // By the player's own controls, so that the page does not ask first.
    await viewer.seeks(position - HOUR / 6);
    await viewer.hears('POST', '/heartbeat', 403);
  });

  test('keeps a viewer from a program without live rights, and lets the one before be seen', async (viewer, { appliance, demo }) => {
    const { blackout } = demo.livestreams;
    await viewer.signUp();
    await viewer.start(blackout, SHAKA);
    await viewer.isTold(NO_RIGHTS);
    await viewer.start(blackout, { ...SHAKA, offset: demo.offsetOpen });
    const { position } = await viewer.plays();
    viewer.isHeardWith(200);
    // By the player's own controls, so that the page does not ask first.
    await viewer.seeks((await serverTime(appliance)) - BEHIND_AT_MOST);
    await viewer.hears('POST', '/heartbeat', 552, 2);
    await viewer.isTold(NO_RIGHTS);
    assert.ok((await viewer.picture()).paused);
    await viewer.shift(position);
    await viewer.arrivesAt(position);
    await viewer.plays();
    assert.equal(viewer.statuses('POST', '/heartbeat').at(-1), 200);
  });
});

onAppliance('a livestream with programs that not everybody may see', { together: true }, (test) => {
  const channels = [
    [SHAKA, 'blackout'],
    [DASHJS, 'open'],
    [HLSJS, 'news'],
  ];
  for (const [how, channel] of channels) {
    test(`stops while there are no live rights, and goes on with the next program: ${how.player}`, async (viewer, { appliance }) => {
      await forbidMatches(appliance, channel);
      const now = await serverTime(appliance);
      const [begin, end] = [now - HOUR, now + HOUR];
      await importGuide(appliance, channel, [['Studio', begin, end]]);
      await viewer.signUp();
      await viewer.start(channel, how);
      const { position } = await viewer.plays();
      viewer.isHeardWith(200);

      const kickOff = Math.ceil(position) + 3;
      const whistle = kickOff + 20; // long enough for three heartbeats, and a look at the picture, on a busy machine
      await importGuide(appliance, channel, [
        ['Studio', begin, kickOff],
        ['Match: at short notice', kickOff, whistle],
        ['Studio again', whistle, end],
      ]);
      await viewer.isTold(NO_RIGHTS);
      const stopped = await viewer.picture();
      assert.ok(stopped.paused);
      await viewer.hears('POST', '/heartbeat', 552, 3);
      assert.deepEqual(await viewer.picture(), stopped);

      await viewer.isTold('');
      const { position: again } = await viewer.plays();
      assert.ok(again > whistle, `it goes on at ${again}, and the next program began at ${whistle}`);
      assertLive(again, await serverTime(appliance));
      const beats = viewer.statuses('POST', '/heartbeat').join(' ');
      assert.match(beats, /^(200 )+(552 )+(200 ?)+$/);
    });
  }


  test('asks for the PIN of each program, once', async (viewer, { appliance, demo }) => {
    await viewer.logIn();
    const now = await serverTime(appliance);
    await importGuide(appliance, 'cinema', [
      ['Heist', now - 3 * HOUR, now - 2 * HOUR, 18],
      ['Duel', now - 2 * HOUR, now - HOUR, 18],
      ['The Paper Boat', now - HOUR, now - 60],
      ['The Long Night', now - 60, now + HOUR, 18],
    ]);
    const enterPin = async () => {
      await viewer.isAskedForPin();
      await viewer.isTold(PIN_WANTED);
      assert.ok((await viewer.picture()).paused);
      await viewer.enterPin(demo.pinCode);
    };
    const asked = () => viewer.statuses('POST', '/entitlement/');

    // Time-shifted by a little more than the present film has been on, into the one before: on a busy machine the entitlement
    // comes some seconds after the guide.
    await viewer.start('cinema', { ...DASHJS, offset: -80 });
    await viewer.playsPast(now - 80);
    await enterPin(); // the next one begins
    await viewer.plays();
    assert.deepEqual(asked(), [200, 403, 200]);

    await viewer.shift(now - 1.5 * HOUR);
    await enterPin();
    await viewer.arrivesAt(now - 1.5 * HOUR);
    await viewer.plays();
    await viewer.shift(now - 30);
    await viewer.arrivesAt(now - 30);
    await viewer.plays();
    assert.deepEqual(asked(), [200, 403, 200, 403, 200, 200]);
    viewer.isHeardWith(200);

    // By the player's own controls, so that the page does not ask first.
    await viewer.seeks(now - 2.5 * HOUR);
    await viewer.hears('POST', '/heartbeat', 403);
    await enterPin();
    await viewer.arrivesAt(now - 2.5 * HOUR);
    await viewer.plays();
    assert.equal(viewer.statuses('POST', '/heartbeat').at(-1), 200);
  });
});

// The browser's clock stays where it is: what is on comes from the appliance alone.
onAppliance('a livestream of a lab whose clock was moved', { together: true }, (test) => {
  const AHEAD = 5 * HOUR + 7;
  for (const [how, channel] of [
    [SHAKA, 'open'],
    [DASHJS, 'open'],
    [HLSJS, 'news'],
    [RXPLAYER, 'open'],
    [VIDEOJS, 'news'],
  ]) {
    test(`plays at the lab's present: ${how.player}`, async (viewer, { appliance }) => {
      await appliance.operate('PUT', '/admin/v1/clock', { offset: AHEAD });
      await viewer.signUp();
      await viewer.start(channel, how);
      const { position } = await viewer.plays();
      const now = await serverTime(appliance);
      assert.ok(now > Date.now() / 1000 + AHEAD - 60);
      assertLive(position, now);
      viewer.isHeardWith(200);
    });
  }
});

// Quality figures from the reports that real players send by CMCD, against a stop-watch in the page. Heartbeats do not
// arrive, so that the figures come from the reports alone.
import assert from 'node:assert/strict';
import { onAppliance } from './lib/stage.mjs';
import { DASHJS, SHAKA, inTheClear } from './lib/ways.mjs';

// For which the first media are held: long, so that a wait for a processor is a small part of it, but below the 5 seconds after
// which Shaka Player asks again.
const START_MS = 4_000;
const STALL_MS = 4_000; // for which the picture stands in mid-play
const PLAYS_BYTES = 21_000; // of the video: what arrives before the stall, some four seconds
const WITHIN = 0.05;
const PLAYS = 3;

/** Holds media back: all of it at the start, and later what comes after the first seconds. */
async function holdMedia(page) {
  let held = [];
  let holds = () => true;
  const release = (next) => {
    holds = next;
    const waiting = held;
    held = [];
    for (const check of waiting) check();
  };
  await page.route('**/*.mp4', async (route) => {
    const range = route.request().headers().range;
    const first = Number(/bytes=(\d+)/.exec(range)[1]);
    while (holds(first)) await new Promise((done) => held.push(done));
    // A player may have given the request up by now.
    await route.continue().catch(() => {});
  });
  return { first: () => release((byte) => byte > PLAYS_BYTES), all: () => release(() => false) };
}

/**
 * Leaves one rendition of the video in the manifest. Otherwise the wait can make Shaka Player fetch the clip's last seconds in
 * the lower one. It names its bitrate from then on, shows it later, and does not report it before the end.
 */
async function offerOneRendition(page) {
  await page.route('**/manifest.mpd', async (route) => {
    const response = await route.fetch();
    const whole = await response.text();
    const body = whole.replace(/<Representation id="1"[^]*?<\/Representation>/, '');
    assert.equal(body.match(/<Representation /g).length, 2, 'one of audio, one of video');
    await route.fulfill({ response, body });
  });
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Plays the clip with a late start and a stall: what the stop-watch says, and the figures of the report. */
async function watched(viewer, { demo, appliance }, model, how) {
  const { page } = viewer;
  await page.route('**/heartbeat', (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()));
  const media = await holdMedia(page);
  await offerOneRendition(page);
  await viewer.signUp();
  await page.evaluate((text) => void (client.service.device['Service-Play-DeviceModel'] = text), model);
  await viewer.start(demo.vod.clear, { reports: {}, ...inTheClear(how) });
  await page.waitForFunction(() => client.watch !== null);
  await pause(START_MS);
  media.first();
  await page.waitForFunction(() => client.watch.stands, null, { timeout: 60_000 });
  await pause(STALL_MS);
  media.all();
  await viewer.ends();
  const watch = await page.evaluate(() => client.watch.stop());
  const { total } = await appliance.operate('GET', `/admin/v1/telemetry/report?where=deviceModel=${model}`);
  return { watch, total };
}

function compare({ watch, total }) {
  const told = JSON.stringify({ watch, total });
  const counts = ({ attempts, plays, startFailures, playbackFailures, rebufferCount }) =>
    [attempts, plays, startFailures, playbackFailures, rebufferCount];
  assert.deepEqual(counts(total), [1, 1, 0, 0, watch.waits.length], told);
  for (const [name, figure, truth] of [
    ['start-up time', total.startupP50Millis, watch.startup],
    ['rebuffering', total.rebufferRatio, watch.waited / (watch.waited + watch.played)],
    ['playing time', total.minutesPlayed, watch.played / 60_000],
    ['bitrate', total.meanBitrate, watch.bitrate],
  ]) {
    const error = figure / truth - 1;
    console.log(`${name}: ${figure} reported, ${truth} by the stop-watch, ${(error * 100).toFixed(1)} %`);
    assert.ok(Math.abs(error) <= WITHIN, `${name}: ${told}`);
  }
  assert.ok(watch.startup > START_MS && watch.waited > STALL_MS, told);
}

/**
 * Compares one play; up to three, each of a new viewer, until the figures agree. A wrong figure is wrong in every play. A play in which
 * the machine stalls is not: the picture then stands longer than the player knows.
 */
async function agrees(stage, model, how, prepare = async () => {}) {
  for (let play = 1; ; play += 1) {
    const viewer = await stage.join();
    await prepare(viewer);
    const figures = await watched(viewer, stage, `${model}-${play}`, how);
    try {
      return compare(figures);
    } catch (error) {
      if (error.code !== 'ERR_ASSERTION' || play === PLAYS) throw error;
      console.log(`play ${play} of ${PLAYS}: ${error.message}`);
    }
  }
}

onAppliance('quality figures by CMCD', {}, (test) => {
  test('are those of the stop-watch: dash.js', (_, stage) => agrees(stage, 'dashjs', DASHJS));

  test('are those of the stop-watch: Shaka Player, debug build', (_, stage) =>
    agrees(stage, 'shaka', SHAKA, ({ page }) => page.addScriptTag({ url: '/npm/shaka-player.compiled.debug.js' })));

  test('are those of the stop-watch: Shaka Player, minified, with states from the page', (_, stage) =>
    agrees(stage, 'minified', { ...SHAKA, reports: { states: true } }));

  // The control of the tests above: without the reports of the wait the figures are others, in any play.
  test('are not those of the stop-watch if reports are lost', async (viewer, stage) => {
    await viewer.page.route('**/cmcd/**', (route) => {
      const waits = /sta=[rw]/.test(route.request().postData() ?? '');
      return waits ? route.fulfill({ status: 204 }) : route.continue();
    });
    const result = await watched(viewer, stage, 'control', DASHJS);
    assert.throws(() => compare(result), { code: 'ERR_ASSERTION' });
    assert.equal(result.total.rebufferCount, 0);
  });

  test('cost no query in the addresses of media', async (viewer, { demo }) => {
    for (const how of [SHAKA, DASHJS]) {
      const addresses = [];
      viewer.page.on('request', (request) => addresses.push(request.url()));
      await viewer.signUp();
      await viewer.start(demo.vod.clear, { ...inTheClear(how), reports: {} });
      await viewer.playsPast(1);
      await viewer.stop();
      assert.ok(addresses.some((address) => address.includes('/cmcd/')), how.player);
      assert.deepEqual(addresses.filter((address) => address.includes('CMCD')), [], how.player);
    }
  });
});

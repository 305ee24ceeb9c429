// A viewer at the partner's page: what is done there, and what is seen and heard.
import assert from 'node:assert/strict';
import { assertShowsCard } from './picture.mjs';

const WITHIN_MS = 60_000; // generous: software decoding on a busy machine
const BEAT_SECONDS = 0.7; // less than ten, to see soon what heartbeats bring about; more than their rate limit
const TONES = [440, 1760]; // the clip's, and its beep once a second

/** The page in a browser profile of its own, knowing the demo's address and partner token. */
export async function openViewer(browser, site, demo) {
  const context = await browser.newContext({ locale: 'en-GB' });
  const viewer = new Viewer(context, await context.newPage(), demo);
  await viewer.page.goto(site.address);
  await viewer.page.evaluate(
    ([baseUrl, partnerToken, heartbeatInterval]) => {
      Object.assign(client.service, { baseUrl, partnerToken });
      Object.assign(client, { heartbeatInterval });
    },
    [demo.baseUrl, demo.partnerToken, BEAT_SECONDS],
  );
  return viewer;
}

class Viewer {
  page;
  #context;
  #demo;
  #answers = []; // what the appliance answered this page, in its order

  constructor(context, page, demo) {
    this.page = page;
    this.#context = context;
    this.#demo = demo;
    page.on('response', (response) => {
      const method = response.request().method();
      if (method === 'OPTIONS' || !response.url().startsWith(demo.baseUrl)) return;
      this.#answers.push({ method, url: response.url(), status: response.status(), response });
    });
  }

  close() {
    return this.#context.close();
  }

  // -- Who it is

  signUp() {
    return this.#identify('PUT', `viewer-${crypto.randomUUID()}@example.org`, 'a long enough pass phrase');
  }

  /** As the demo's user, who has a PIN. */
  logIn() {
    return this.#identify('POST', this.#demo.identity, this.#demo.accessKey);
  }

  async #identify(...args) {
    const answer = await this.page.evaluate((a) => client.service.identify(...a), args);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  }

  // -- What it does

  /** One call of the interface. */
  call(...call) {
    return this.page.evaluate((args) => client.service.call(...args), call);
  }

  /** Not awaited in the page: while that asks for the PIN, a start does not come to its end. */
  start(assetId, how) {
    return this.page.evaluate(([id, options]) => void client.start(id, options), [assetId, how]);
  }

  /** Up to the addresses; what `play` then takes. */
  prepare(assetId, how) {
    return this.page.evaluateHandle((args) => client.prepare(...args), [assetId, how]);
  }

  play(prepared) {
    return this.page.evaluate((p) => client.play(p), prepared);
  }

  stop() {
    return this.page.evaluate(() => client.stop());
  }

  /** Takes a livestream to another moment with the page's control. */
  shift(to) {
    return this.page.evaluate((at) => void client.shift(at), to);
  }

  /** The same with the player's own controls, of which the page is not told. */
  seeks(to) {
    return this.page.evaluate((at) => void (client.video.currentTime += at - client.position()), to);
  }

  /** The page beats as often as the interface says, as those of partners do. */
  beatsAsTold() {
    return this.page.evaluate(() => void (client.heartbeatInterval = null));
  }

  /** A fault between the appliance and the player: a few bits of each key in a license are others. */
  tamperWithKeys() {
    return this.page.route('**/license', async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      for (const key of body.keys) key.k = (key.k[0] === 'A' ? 'B' : 'A') + key.k.slice(1);
      await route.fulfill({ response, json: body });
    });
  }

  async enterPin(digits) {
    await this.page.fill('#pin input', digits);
    await this.page.click('#pin button');
  }

  // -- What it sees and hears

  /** Waits for the page to show these words. */
  isTold(words) {
    return this.#until(`it is told “${words}”`, (text) => document.getElementById('message').textContent === text, words);
  }

  isAskedForPin() {
    return this.#until('it is asked for the PIN', () => !document.getElementById('pin').hidden);
  }

  position() {
    return this.page.evaluate(() => client.position());
  }

  /** Whether the picture stands, and where. */
  picture() {
    return this.page.evaluate(() => ({ paused: client.video.paused, at: client.video.currentTime }));
  }

  /** Waits until play goes on from a position, or a little after it. */
  arrivesAt(position) {
    const there = (at) => !client.video.paused && client.position() >= at && client.position() < at + 60;
    return this.#until(`it plays at ${position}`, there, position);
  }

  /** Waits until play has gone past a position; figures of that moment. */
  async playsPast(position) {
    const running = (past) => client.position() > past && !client.video.paused;
    await this.#until(`it plays past ${position}`, running, position);
    return this.page.evaluate(() => ({
      position: client.position(),
      frames: client.video.getVideoPlaybackQuality().totalVideoFrames,
      encrypted: client.video.mediaKeys !== null,
    }));
  }

  /**
   * Sees the clip's card at the moment that the page says, and another than `before`; which second of the clip it is.
   * On a busy machine pictures may stay behind for a while.
   */
  async seesCard(before) {
    const until = Date.now() + WITHIN_MS;
    for (;;) {
      try {
        const second = await assertShowsCard(this.page);
        assert.ok(before === undefined || Math.abs(second - before) > 0.5, `the picture stands at ${before} s`);
        return second;
      } catch (error) {
        if (Date.now() > until) throw error;
      }
    }
  }

  /** Pictures, their movement and the tone: what proves that play is real. The figures of the end. */
  async plays() {
    const start = await this.playsPast(0);
    const first = await this.playsPast(start.position + 0.5);
    const seen = await this.seesCard();
    const second = await this.playsPast(first.position + 1.2);
    await this.seesCard(seen);
    assert.ok(second.frames - first.frames > 20, `frames: ${first.frames}, then ${second.frames}`);
    await this.hearsTone();
    return second;
  }

  /** Hears the clip. On a busy machine the sound may stop for a moment. */
  async hearsTone() {
    const until = Date.now() + WITHIN_MS;
    for (;;) {
      const sound = await this.page.evaluate(loudest);
      const known = TONES.some((hertz) => Math.abs(sound.hertz - hertz) < 15);
      if (known && sound.level > -70) return;
      assert.ok(Date.now() < until, JSON.stringify(sound));
    }
  }

  /** Waits until play has ended by itself, and the page has told the appliance. */
  async ends() {
    await this.#until('it ends', () => client.position() === null);
    await this.hears('DELETE', '/heartbeat', 204);
  }

  /** Waits until the appliance has answered so, or so many times. */
  async hears(method, part, status, times = 1) {
    const seen = () => this.statuses(method, part).filter((other) => other === status).length >= times;
    if (!seen()) await this.page.waitForResponse(seen, { timeout: WITHIN_MS });
  }

  /** Waits for the player to report that it could not begin, by its own code for that. */
  async failsAtOnce(code) {
    await this.#until('the player fails', () => client.failures.length > 0);
    const [failure] = await this.#failures();
    assert.equal(failure.code, code);
    assert.ok(failure.position < 0.5, `it played up to ${failure.position}`); // players may skip a gap at the start
  }

  #failures() {
    return this.page.evaluate(() => client.failures);
  }

  // -- What the appliance answered

  /** The answers to a method and a part of the address, in their order. */
  answers(method, part) {
    return this.#answers.filter((answer) => answer.method === method && answer.url.includes(part));
  }

  statuses(method, part) {
    return this.answers(method, part).map(({ status }) => status);
  }

  /** Heartbeats have gone out, and all were answered so. */
  isHeardWith(status) {
    const beats = this.statuses('POST', '/heartbeat');
    assert.ok(beats.length > 1 && beats.every((other) => other === status), `heartbeats: ${beats}`);
  }

  async #until(what, predicate, argument) {
    try {
      await this.page.waitForFunction(predicate, argument, { timeout: WITHIN_MS });
    } catch (error) {
      const message = await this.page.textContent('#message');
      const failures = JSON.stringify(await this.#failures());
      const video = JSON.stringify(await this.page.evaluate(videoState));
      const answers = this.#answers.slice(-5).map(({ method, url, status }) => `${method} ${url} ${status}`);
      throw new Error(
        `not in time: ${what}\nthe page says “${message}”, its players ${failures}; the video ${video}; ` +
          `the last answers:\n${answers.join('\n')}`,
        { cause: error },
      );
    }
  }
}

/** In the page: what the video element does. */
function videoState() {
  const { currentTime, duration, paused, seeking, ended, readyState, playbackRate, buffered } = client.video;
  const ranges = Array.from(buffered, (_, i) => [buffered.start(i), buffered.end(i)]);
  return { currentTime, duration, paused, seeking, ended, readyState, playbackRate, ranges };
}

/** In the page: the loudest frequency of what is heard, in Hz, and its level in dB. */
async function loudest() {
  if (!window.ear) {
    const context = new AudioContext();
    await context.resume();
    window.ear = new AnalyserNode(context, { fftSize: 4096 });
    context.createMediaElementSource(client.video).connect(window.ear).connect(context.destination);
  }
  await new Promise((done) => setTimeout(done, 500));
  const levels = new Float32Array(window.ear.frequencyBinCount);
  window.ear.getFloatFrequencyData(levels);
  const loudest = levels.indexOf(Math.max(...levels));
  return { hertz: (loudest * window.ear.context.sampleRate) / window.ear.fftSize, level: levels[loudest] };
}

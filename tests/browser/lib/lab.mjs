// A developer at the lab's player page, in a browser profile of its own.
import assert from 'node:assert/strict';

const WITHIN_MS = 60_000; // generous: software decoding on a busy machine

export async function openLab(browser, { labUrl, baseUrl }, options = {}) {
  const context = await browser.newContext({ locale: 'en-GB', viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(WITHIN_MS);
  const lab = new Lab(context, await context.newPage(), baseUrl);
  await lab.page.goto(labUrl);
  await lab.page.waitForSelector('[data-asset]');
  await lab.page.evaluate(() => (window.player = document.querySelector('playgate-player')));
  return lab;
}

class Lab {
  page;
  #context;
  #answers = [];
  #complaints = [];

  constructor(context, page, baseUrl) {
    this.page = page;
    this.#context = context;
    page.on('request', (request) => {
      const { protocol, origin } = new URL(request.url());
      const own = origin === new URL(baseUrl).origin || protocol === 'blob:' || protocol === 'data:';
      if (!own) this.#complaints.push(`a request left the server: ${request.url()}`);
    });
    page.on('response', (response) => {
      this.#answers.push({ method: response.request().method(), url: response.url(), status: response.status() });
    });
    page.on('pageerror', (error) => this.#complaints.push(error.stack));
    page.on('console', (said) => {
      if (/Content Security Policy/.test(said.text())) this.#complaints.push(said.text());
    });
  }

  /** No script failed, the policy had to stop nothing, and no request left the server. */
  async close() {
    // Leaving the page ends its session, of which the user may have three. A browser that is closed may no longer say so.
    await this.page.goto('about:blank');
    await this.#context.close();
    assert.deepEqual(this.#complaints, []);
  }

  play(assetId) {
    return this.page.click(`[data-asset="${assetId}"]`);
  }

  async enterPin(digits) {
    await this.page.fill('playgate-player .pin', digits);
    await this.page.click('playgate-player .panel .main');
  }

  sees(words, place) {
    return this.page.locator(place).getByText(words).first().waitFor();
  }

  /** Waits until the picture moves: time and decoded frames. Whether it is decrypted. */
  async plays() {
    const figures = () => {
      const { video } = player;
      const { totalVideoFrames: frames } = video.getVideoPlaybackQuality();
      return { at: video.currentTime, frames, paused: video.paused, seeking: video.seeking };
    };
    const until = Date.now() + WITHIN_MS;
    for (;;) {
      const first = await this.page.evaluate(figures);
      await this.page.waitForTimeout(700);
      const next = await this.page.evaluate(figures);
      const runs = !next.paused && !next.seeking && next.at !== first.at && next.frames > first.frames + 5;
      if (runs) return this.page.evaluate(() => player.video.mediaKeys !== null);
      if (Date.now() > until) {
        const said = await this.page.evaluate(() => document.getElementById('facts').innerText + player.shadowRoot.textContent.slice(-300));
        throw new Error(`the picture does not move: ${JSON.stringify([first, next])}\n${said}`);
      }
    }
  }

  /** The last position that a heartbeat reported, once there is one after now. */
  async position() {
    const beat = await this.page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith('/heartbeat'));
    return Number((await beat.allHeaders())['service-play-timestamp']);
  }

  statuses(method, part) {
    return this.#answers.filter((one) => one.method === method && one.url.includes(part)).map(({ status }) => status);
  }

  async hears(method, part, status) {
    const seen = () => this.statuses(method, part).includes(status);
    if (!seen()) await this.page.waitForResponse(seen);
  }
}

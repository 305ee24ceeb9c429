// A viewer at a page that is made of the packages.

const WITHIN_MS = 60_000; // generous: software decoding on a busy machine

/** Opens the page with a player, in a browser profile of its own; `init` runs before its scripts. */
export async function openPackagePage(browser, site, demo, player, { init } = {}) {
  const context = await browser.newContext({ locale: 'en-GB' });
  context.setDefaultTimeout(WITHIN_MS);
  if (init) await context.addInitScript(init);
  const { baseUrl, partnerToken, identity, accessKey } = demo;
  const address = `${site.address}package/?${new URLSearchParams({ player, baseUrl, partnerToken, identity, accessKey })}`;
  const page = new PackagePage(context, await context.newPage(), address);
  await page.open();
  return page;
}

class PackagePage {
  #context;
  #page;
  #address;
  #answers = [];
  #errors = [];

  constructor(context, page, address) {
    this.#context = context;
    this.#page = page;
    this.#address = address;
    page.on('response', (response) => {
      const request = response.request();
      if (request.method() !== 'OPTIONS') this.#answers.push({ method: request.method(), url: response.url(), status: response.status() });
    });
    page.on('pageerror', (error) => this.#errors.push(error.stack));
  }

  async open() {
    await this.#page.goto(this.#address);
    await this.#page.waitForFunction(() => window.ready);
  }

  async otherTab() {
    const other = new PackagePage(this.#context, await this.#context.newPage(), this.#address);
    await other.open();
    return other;
  }

  async close() {
    await this.#page.goto('about:blank').catch(() => {});
    await this.#context.close();
  }

  async complaints() {
    const ofPage = this.#page.url() === 'about:blank' ? [] : await this.#page.evaluate(() => window.complaints);
    return [...this.#errors, ...ofPage];
  }

  evaluate(...given) {
    return this.#page.evaluate(...given);
  }

  /** Begins; what comes of it is for the next step to say. */
  start(assetId, options) {
    return this.#page.evaluate(([id, given]) => void session.start(id, given), [assetId, options]);
  }

  stop() {
    return this.#page.evaluate(() => session.stop());
  }

  seek(position) {
    return this.#page.evaluate((to) => session.seek(to), position);
  }

  async state(wanted) {
    try {
      await this.#page.waitForFunction((state) => session.state === state, wanted);
    } catch (error) {
      const now = await this.#page.evaluate(() => [session.state, session.reason, session.error?.code, session.error?.message]);
      throw new Error(`the state is ${now}, not ${wanted}; the last answers: ${JSON.stringify(this.#answers.slice(-4))}`, { cause: error });
    }
  }

  sees(words) {
    return this.#page.locator('#message').getByText(words).waitFor();
  }

  async enterPin(digits) {
    await this.#page.waitForSelector('#pin:not([hidden])');
    await this.#page.fill('#pin-code', digits);
    await this.#page.click('#pin button');
  }

  /** Enters the PIN, if the page asks for it. */
  async answerPin(digits) {
    if (await this.#page.locator('#pin').isVisible()) await this.enterPin(digits);
  }

  /** Starts a title if nothing plays, a few seconds after a refusal, as a viewer does; and anew in each scenario. */
  playAgain(assetId, scenario) {
    return this.#page.evaluate(
      ([id, current]) => {
        const stands = session.state === 'idle' || session.state === 'ended';
        if (stands) window.stoodSince ??= performance.now();
        else window.stoodSince = undefined;
        const rested = performance.now() - window.stoodSince > 8_000;
        const another = current !== window.scenario;
        if (!another && !(stands && rested)) return;
        window.scenario = current;
        window.begun = performance.now();
        window.stoodSince = undefined;
        void session.start(id);
      },
      [assetId, scenario],
    );
  }

  /** Asks what is on every quarter of a minute, as the list of an app does. */
  lookAround() {
    return this.#page.evaluate(() => {
      if (performance.now() - window.looked < 15_000) return;
      window.looked = performance.now();
      void client.guide.livestreams().then((all) => client.guide.live(all.map(({ id }) => id)));
    });
  }

  /** Starts the title a second time in a scenario, some seconds behind live, as a viewer who has come late. */
  startOver(assetId, offset) {
    return this.#page.evaluate(
      ([id, options]) => {
        if (window.again === window.scenario || session.state !== 'playing' || performance.now() - window.begun < 12_000) return;
        window.again = window.scenario;
        void session.start(id, options);
      },
      [assetId, { offset }],
    );
  }

  /** Waits until the picture moves: time and decoded frames. */
  async plays() {
    await this.state('playing');
    const figures = () => ({ at: video.currentTime, frames: video.getVideoPlaybackQuality().totalVideoFrames });
    const first = await this.#page.evaluate(figures);
    const moves = ({ at, frames }) =>
      session.state === 'playing' && video.currentTime !== at && video.getVideoPlaybackQuality().totalVideoFrames > frames + 5;
    try {
      await this.#page.waitForFunction(moves, first);
    } catch (error) {
      const now = await this.#page.evaluate(() => [session.state, session.error?.message, video.currentTime, video.readyState, video.paused]);
      throw new Error(`the picture does not move: ${now}; ${JSON.stringify(this.#answers.slice(-4))}`, { cause: error });
    }
  }

  /** Waits until what was loaded has been played. */
  async stands() {
    await this.#page.waitForFunction(() => video.readyState < 3 || video.paused);
  }

  encrypted() {
    return this.#page.evaluate(() => video.mediaKeys !== null);
  }

  /** Seconds of the picture behind the present. */
  behind() {
    return this.#page.evaluate(() => client.clock.now() - session.position);
  }

  /** The headers of the next heartbeat, once one is answered so. */
  async heartbeat(status = 200) {
    const wanted = (response) => response.request().method() === 'POST' && response.url().endsWith('/heartbeat') && response.status() === status;
    const response = await this.#page.waitForResponse(wanted);
    return response.request().allHeaders();
  }

  hears(method, part) {
    return this.#page.waitForRequest((request) => request.method() === method && request.url().includes(part));
  }

  leave() {
    return this.#page.goto('about:blank');
  }

  offline(away) {
    return this.#context.setOffline(away);
  }

  statuses(method, part) {
    return this.#answers.filter((one) => one.method === method && one.url.includes(part)).map(({ status }) => status);
  }
}

// `<playgate-player>` as viewers use it: log-in, PIN pad, keys, live edge, messages in three languages, and no barrier.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { HIGH_PLAYBACK_LIMITS, startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { barriers } from './lib/console.mjs';
import { startSite } from './lib/site.mjs';

const TIMEOUT_MS = 300_000;
const WITHIN_MS = 60_000;

describe('<playgate-player>', { concurrency: 2 }, () => {
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

  const onPage = (name, attributes, steps, { width = 1280, colorScheme = 'light', withoutShaka = false } = {}) =>
    test(name, { skip, timeout: TIMEOUT_MS }, async () => {
      const { demo } = appliance;
      const context = await browser.newContext({ locale: 'en-GB', colorScheme, viewport: { width, height: 800 } });
      context.setDefaultTimeout(WITHIN_MS);
      const page = await context.newPage();
      if (withoutShaka) await page.route('**/npm/**', (route) => route.abort());
      const given = { 'base-url': demo.baseUrl, 'partner-token': demo.partnerToken, muted: '', ...attributes(demo) };
      const viewer = new Viewer(page, demo);
      page.on('pageerror', (error) => viewer.errors.push(error.stack));
      try {
        await page.goto(`${site.address}package/player.html?${new URLSearchParams(given)}`);
        await steps(viewer, demo);
        assert.deepEqual([...viewer.errors, ...(await page.evaluate(() => window.complaints))], []);
      } finally {
        await page.goto('about:blank');
        await context.close();
      }
    });

  onPage('logs in, asks for the PIN on a pad, and plays', ({ vod }) => ({ asset: vod.adult }), async (viewer, { pinCode }) => {
    await viewer.logIn();
    for (const digit of ['0', '0', '0', '0']) await viewer.page.getByRole('button', { name: digit, exact: true }).click();
    await viewer.page.getByRole('button', { name: 'Unlock' }).click();
    await viewer.page.getByText('Attempts left: 4').waitFor();
    await viewer.page.keyboard.type(pinCode);
    await viewer.page.keyboard.press('Enter');
    await viewer.plays();
    await viewer.page.getByText('The Test Card, Uncut').waitFor();
  });

  onPage('obeys keys, and leaves them to the control that has the focus', ({ vod }) => ({ asset: vod.open }), async (viewer) => {
    const { page } = viewer;
    await viewer.logIn();
    await viewer.plays();
    await page.getByRole('button', { name: 'Pause' }).focus();
    await page.keyboard.press(' ');
    await viewer.state('paused');
    await page.keyboard.press('k');
    await viewer.state('playing');
    await page.keyboard.press('m');
    await page.getByRole('button', { name: 'Mute', exact: true }).waitFor();
    await page.keyboard.press('Home');
    await page.waitForFunction(() => player.session.position < 5);
    await page.getByRole('slider', { name: 'Volume' }).focus();
    await page.keyboard.press('ArrowLeft');
    assert.ok((await page.evaluate(() => player.video.volume)) < 1);
  });

  onPage('shows the program of a livestream, starts it over, and goes live again', ({ livestreams }) => ({ asset: livestreams.open }), async (viewer, { livestreams }) => {
    const { page } = viewer;
    await viewer.logIn();
    await viewer.plays();
    const [{ current }] = await page.evaluate((id) => player.client.guide.live([id]).then((live) => [live[id]]), livestreams.open);
    await page.getByText(current.title).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Live', exact: true }).getAttribute('aria-pressed'), 'true');
    await page.getByRole('button', { name: 'Start over' }).click();
    await page.waitForFunction((start) => Math.abs(player.session.position - start) < 20, current.start);
    await viewer.plays();
    await page.getByRole('button', { name: 'Go to live' }).click();
    await page.waitForFunction(() => player.now() - player.session.position < 45);
    await viewer.plays();
  });

  onPage('says why not, in the language of the page, and tries again', ({ vod }) => ({ asset: vod.premium, lang: 'sv' }), async (viewer) => {
    await viewer.logIn({ email: 'E-post', password: 'Lösenord', button: 'Logga in' });
    await viewer.page.getByRole('button', { name: 'Försök igen' }).waitFor();
    await viewer.page.evaluate(() => player.setAttribute('asset', 'film-open'));
    await viewer.plays();
  });

  onPage('asks again after a wrong password, and not after the viewer has declined', ({ vod }) => ({ asset: vod.open }), async (viewer) => {
    const { page } = viewer;
    await page.getByLabel('E-mail').fill(viewer.demo.identity);
    await page.getByLabel('Password').fill('wrong');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByLabel('E-mail').and(page.locator(':focus')).waitFor();
    await page.waitForFunction(() => player.shadowRoot.querySelector('.panel input').value === '');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Try again' }).click();
    await viewer.logIn();
    await viewer.plays();
  });

  onPage('plays by itself where Shaka Player cannot be reached', ({ vod }) => ({ asset: vod.open }), async (viewer) => {
    const { page } = viewer;
    await viewer.logIn();
    await viewer.plays();
    assert.equal(await page.evaluate(() => player.video.mediaKeys !== null), true);
    await page.getByLabel('Quality').selectOption({ label: '180p' });
    await page.evaluate(() => player.setAttribute('asset', 'film-clear'));
    await viewer.plays();
    await page.getByText('The Test Card, in the Clear').waitFor();
  }, { withoutShaka: true });

  onPage('says that it is not set up', () => ({ 'base-url': 'nonsense://', asset: 'x', lang: 'de' }), async ({ page }) => {
    await page.getByText('Der Player ist nicht richtig eingerichtet.').waitFor();
  });

  onPage('plays on when the page moves it, and ends when the page takes it away (muxinc/elements 765, media-elements 75)', ({ vod }) => ({ asset: vod.open }), async (viewer) => {
    const { page } = viewer;
    await viewer.logIn();
    await viewer.plays();
    await page.evaluate(() => document.querySelector('main').prepend(player));
    await viewer.plays();
    const ended = page.waitForRequest((request) => request.method() === 'DELETE' && request.url().includes('/heartbeat'));
    await page.evaluate(() => player.remove());
    await ended;
    assert.equal(await page.evaluate(() => player.session), null);
    await page.evaluate(() => document.querySelector('main').append(player));
    await viewer.plays();
  });

  test('the example of the documents plays as it stands', { skip, timeout: TIMEOUT_MS }, async () => {
    const { baseUrl, partnerToken } = appliance.demo;
    const document = await readFile(path.resolve(import.meta.dirname, '../../docs/clients.md'), 'utf8');
    const [, example] = /```html\n([^]*?)```/.exec(document);
    assert.ok(example.trim().split('\n').length <= 32);
    const html = example.replaceAll('http://127.0.0.1:8080', baseUrl).replace('PARTNER_TOKEN', partnerToken);
    const page = await browser.newPage();
    page.setDefaultTimeout(WITHIN_MS);
    const viewer = new Viewer(page, appliance.demo);
    page.on('pageerror', (error) => viewer.errors.push(error.stack));
    const shaka = await readFile(path.join(import.meta.dirname, 'node_modules/shaka-player/dist/shaka-player.compiled.js'));
    const server = createServer(({ url }, response) => {
      const isScript = url.endsWith('.js');
      response.writeHead(200, { 'Content-Type': isScript ? 'text/javascript' : 'text/html' }).end(isScript ? shaka : html);
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.evaluate(() => (window.player = document.querySelector('playgate-player')));
    // The first title may have no live rights now.
    await page.getByLabel('Watch').selectOption('film-open');
    await viewer.logIn();
    await viewer.plays();
    await page.getByLabel('Watch').selectOption('film-clear');
    await viewer.plays();
    await page.getByText('The Test Card, in the Clear').last().waitFor();
    assert.deepEqual(viewer.errors, []);
    await page.goto('about:blank');
    await page.close();
    server.closeAllConnections();
    server.close();
  });

  for (const [width, colorScheme] of [[390, 'light'], [390, 'dark'], [1280, 'light'], [1280, 'dark']]) {
    onPage(`has no barrier at ${width} px in ${colorScheme}`, ({ vod }) => ({ asset: vod.adult }), async (viewer, { pinCode }) => {
      const { page } = viewer;
      const picture = async (name) => {
        assert.deepEqual(await barriers(page), [], name);
        assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
        if (process.env.PICTURES) await page.screenshot({ path: path.join(process.env.PICTURES, `player-${name}-${width}-${colorScheme}.png`) });
      };
      await page.getByLabel('E-mail').waitFor();
      await picture('login');
      await viewer.logIn();
      await page.getByRole('button', { name: 'Unlock' }).waitFor();
      await picture('pin');
      await page.keyboard.type(pinCode);
      await page.keyboard.press('Enter');
      await viewer.plays();
      await page.mouse.move(100, 200);
      await picture('film');
      await page.evaluate(() => player.setAttribute('asset', 'open'));
      await viewer.plays();
      await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
      await page.mouse.move(120, 220);
      await picture('live');
      await page.evaluate(() => player.setAttribute('asset', 'film-premium'));
      await page.getByRole('button', { name: 'Try again' }).waitFor();
      await picture('refused');
    }, { width, colorScheme });
  }
});

class Viewer {
  errors = [];

  constructor(page, demo) {
    this.page = page;
    this.demo = demo;
  }

  async logIn({ email = 'E-mail', password = 'Password', button = 'Log in' } = {}) {
    await this.page.getByLabel(email).fill(this.demo.identity);
    await this.page.getByLabel(password).fill(this.demo.accessKey);
    await this.page.getByRole('button', { name: button }).click();
  }

  state(wanted) {
    return this.page.waitForFunction((state) => player.session?.state === state, wanted);
  }

  /** Waits until the picture moves. */
  async plays() {
    const figures = () => ({ at: player.video.currentTime, frames: player.video.getVideoPlaybackQuality().totalVideoFrames });
    try {
      await this.state('playing');
      const first = await this.page.evaluate(figures);
      await this.page.waitForFunction(
        ({ at, frames }) => player.session.state === 'playing' && player.video.currentTime !== at && player.video.getVideoPlaybackQuality().totalVideoFrames > frames + 5,
        first,
      );
    } catch (cause) {
      const now = await this.page.evaluate(() => [player.session?.state, player.session?.error?.message, player.video?.currentTime, player.video?.paused, player.shadowRoot.textContent.slice(-300)]);
      throw new Error(`it does not play: ${now}`, { cause });
    }
  }
}

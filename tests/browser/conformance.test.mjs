// The conformance report of the lab's player page, which is a good client, and the report as a page.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { barriers } from './lib/console.mjs';
import { openLab } from './lib/lab.mjs';

const TEST_TIMEOUT_MS = 300_000;

describe('the conformance report', () => {
  let appliance, browser, folder;

  before(async () => {
    if (skip) return;
    folder = await mkdtemp(path.join(tmpdir(), 'playgate-report-'));
    appliance = await startAppliance({});
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await appliance?.stop();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  const check = async (...options) => {
    const { code, out } = await appliance.command('lab', 'check', '--partner', 'demo', '--json', ...options).ended;
    const report = JSON.parse(out);
    const ids = (result) => report.rules.filter((rule) => rule.result === result).map(({ id }) => id);
    return { code, report, failed: ids('failed'), passed: ids('passed') };
  };

  test('finds nothing wrong with the lab player', { skip, timeout: TEST_TIMEOUT_MS }, async () => {
    const { vod, pinCode } = appliance.demo;
    const lab = await openLab(browser, appliance.demo);
    const beats = async (times) => {
      while (lab.statuses('POST', '/heartbeat').length < times) await lab.page.waitForTimeout(500);
    };
    await lab.play(vod.open);
    await lab.plays();
    await beats(5);
    await lab.page.click('#stop');
    await lab.hears('DELETE', '/heartbeat', 204);
    await lab.page.click('#try-pin');
    await lab.enterPin('0000');
    await lab.sees('Attempts left: 4', 'playgate-player .panel');
    await lab.enterPin(pinCode);
    await lab.plays();
    await lab.page.click('#stop');
    await lab.page.waitForTimeout(1_000);
    await lab.page.click('#try-552');
    await lab.plays();
    await lab.hears('POST', '/heartbeat', 552);
    await lab.page.waitForTimeout(15_000);
    await lab.page.click('#stop');
    await lab.page.waitForTimeout(2_000);
    const { code, report, failed, passed } = await check();
    const why = report.rules.filter(({ result }) => result === 'failed');
    assert.deepEqual(failed, [], JSON.stringify(why, null, 1));
    assert.equal(code, 0);
    for (const id of ['token-reused', 'pin-once', 'headers-unchanged', 'heartbeat-interval', 'first-heartbeat', 'stop-on-552']) {
      assert.ok(passed.includes(id), `${id} was not seen`);
    }
    await lab.close();
  });

  for (const [width, colorScheme] of [
    [390, 'dark'],
    [1280, 'light'],
  ]) {
    test(`is a page that fits ${width} px in ${colorScheme}`, { skip, timeout: TEST_TIMEOUT_MS }, async () => {
      // A client that logs in for each start: the page has every kind of result.
      const { baseUrl, partnerToken, identity, accessKey } = appliance.demo;
      const headers = { 'Service-AccessToken': partnerToken, 'Content-Type': 'application/json' };
      const body = JSON.stringify({ identity, accessKey });
      const login = () => fetch(new URL('/api/login/v2/auth/email', baseUrl), { method: 'POST', headers, body });
      const { token, userId } = await (await login()).json();
      const user = { ...headers, Authorization: `Bearer ${token}` };
      await fetch(new URL(`/api/user/v1/users/${userId}/offers`, baseUrl), { headers: user });
      await login();
      const html = path.join(folder, `report-${width}.html`);
      const { code, failed } = await check('--from', '-10m', '--html', html);
      assert.ok(failed.includes('token-reused'), `failed: ${failed}`);
      assert.equal(code, 1);
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      const page = await context.newPage();
      await page.goto(pathToFileURL(html).href);
      await page.getByText('logged in while the token of an earlier log-in worked').waitFor();
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
      assert.deepEqual(await barriers(page), []);
      if (process.env.PICTURES) await page.screenshot({ path: path.join(process.env.PICTURES, `report-${width}.png`), fullPage: true });
      await context.close();
    });
  }

  test('of a certification lists the scenarios on a phone', { skip, timeout: TEST_TIMEOUT_MS }, async () => {
    const html = path.join(folder, 'certification.html');
    const scenarios = ['--only', 'asset-gone,blackout', '--limit', '1s'];
    const run = appliance.command('lab', 'run', 'certification', '--partner', 'demo', ...scenarios, '--html', html);
    const { code, err } = await run.ended;
    assert.equal(code, 1, err);
    const context = await browser.newContext({ viewport: { width: 390, height: 900 } });
    const page = await context.newPage();
    await page.goto(pathToFileURL(html).href);
    assert.deepEqual(await page.locator('.scenarios > li').allInnerTexts(), [
      'failed Catalogue entry gone asset-gone\n\nno request of the client within 1s',
      'not run blackout',
    ]);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
    assert.deepEqual(await barriers(page), []);
    await context.close();
  });
});

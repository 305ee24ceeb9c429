// The description as a page: contents, search, languages of the examples, on a phone and without scripts.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { barriers } from './lib/console.mjs';

const WIDE = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };
/** The check for barriers walks a page of some thousand elements, which takes a minute on a busy machine. */
const LONGEST = 240_000;

describe('the page of the description', () => {
  let appliance, browser;

  before(async () => {
    if (skip) return;
    appliance = await startAppliance();
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await appliance?.stop();
  });

  /** A test at the page of the partner interface, which may load nothing else and report nothing. */
  function at(name, steps, options = {}) {
    test(name, { skip, timeout: LONGEST }, async () => {
      const { baseUrl, opsUrl } = appliance.demo;
      const context = await browser.newContext({ viewport: WIDE, ...options });
      const page = await context.newPage();
      const [requests, reports] = [[], []];
      page.on('request', (request) => requests.push(request.url()));
      page.on('console', (message) => reports.push(message.text()));
      page.on('pageerror', (error) => reports.push(String(error)));
      const address = `${options.ops ? opsUrl : baseUrl}/docs`;
      await page.goto(address);
      await steps(page, (id) => page.locator(`#${id}`));
      assert.deepEqual([requests.filter((url) => !url.startsWith(address)), reports], [[], []]);
      await context.close();
    });
  }

  const shown = (page) => page.locator('#contents a:visible').allTextContents();
  const width = (page) => page.evaluate(() => document.documentElement.scrollWidth);

  at('lists every operation beside the text, and follows a link', async (page) => {
    assert.ok((await shown(page)).length > 49);
    await page.locator('#contents a[href="#heartbeat"]').click();
    await page.locator('#heartbeat:target').waitFor();
    await page.locator('#contents a[href="#heartbeat"][aria-current]').waitFor();
    assert.equal(await width(page), WIDE.width);
  });

  at('finds operations, types and codes by words of their text', async (page, id) => {
    await page.keyboard.press('/');
    await page.keyboard.type('stream limit');
    const found = (await shown(page)).join('\n');
    assert.match(found, /Prepare playback/);
    assert.match(found, /409 STREAM_LIMIT_REACHED/);
    assert.doesNotMatch(found, /M3U/);
    assert.match(await id('found').textContent(), /^\d+ found$/);
    await id('search').fill('no such words');
    assert.deepEqual(await shown(page), []);
    await page.keyboard.press('Escape');
    assert.ok((await shown(page)).length > 49);
  });

  at('shows examples in the language that was chosen, also after a reload', async (page, id) => {
    const example = page.locator('#preflight pre[data-language]:visible');
    assert.match(await example.textContent(), /^curl -X POST/);
    for (const [language, word] of [['typescript', 'await fetch('], ['kotlin', 'Request.Builder()'], ['python', 'httpx.request(']]) {
      await id('language').selectOption(language);
      assert.ok((await example.textContent()).includes(word), language);
    }
    await page.reload();
    assert.equal(await id('language').inputValue(), 'python');
  });

  at('fits a phone, with the contents folded', async (page, id) => {
    assert.equal(await width(page), PHONE.width);
    assert.deepEqual(await shown(page), []);
    await page.getByText('Contents', { exact: true }).click();
    await page.locator('#contents a[href="#login"]').click();
    await page.locator('#login:target').waitFor();
    assert.deepEqual(await shown(page), []);
    await id('search').fill('xmltv');
    assert.match((await shown(page)).join('\n'), /XMLTV/);
  }, { viewport: PHONE });

  for (const [where, options] of [['a screen', {}], ['a phone', { viewport: PHONE }], ['a dark phone', { viewport: PHONE, colorScheme: 'dark' }]]) {
    at(`has no barriers on ${where}`, async (page) => assert.deepEqual(await barriers(page), []), options);
  }

  at('has all its text without scripts', async (page, id) => {
    assert.equal(await id('bar').isVisible(), false);
    await page.getByText('Contents', { exact: true }).click();
    assert.ok((await shown(page)).length > 49);
    assert.match(await page.locator('#login pre:visible').first().textContent(), /^curl/);
  }, { javaScriptEnabled: false });

  at('begins with a call to copy, and links guides that are pages', async (page) => {
    assert.match(await page.locator('#first-call pre:visible').textContent(), /^curl "http:.*\/api\/catalog\/v1\/livestreams"/);
    await page.locator('#first-call a[href="docs/clients/"]').click();
    await page.locator('h1', { hasText: 'Writing a client' }).waitFor();
    assert.deepEqual(await barriers(page), []);
    assert.equal(await width(page), WIDE.width);
    await page.locator('nav a[href="../lab/"]').click();
    await page.locator('h1', { hasText: 'The lab' }).waitFor();
    await page.locator('nav a', { hasText: 'Reference' }).click();
    await page.locator('#first-call').waitFor();
  });

  test('fills in the token of a lab partner, and tries calls with it', { skip, timeout: LONGEST }, async () => {
    const { baseUrl, partnerToken, identity, accessKey } = appliance.demo;
    const context = await browser.newContext({ viewport: WIDE });
    const page = await context.newPage();
    await page.goto(`${baseUrl}/docs`);
    const example = page.locator('#livestreams pre[data-language]:visible');
    assert.match(await example.textContent(), /\$PARTNER_TOKEN/);
    assert.equal(await page.locator('button.try:visible').count(), 0);
    await page.fill('#token', 'not-a-token');
    await page.click('text=Use it here');
    await page.locator('#access-state', { hasText: 'does not know this token' }).waitFor();
    await page.fill('#token', partnerToken);
    await page.click('text=Use it here');
    await page.locator('#livestreams button.try').click();
    assert.ok((await example.textContent()).includes(`: ${partnerToken}"`));
    await page.locator('#livestreams .trial button').click();
    await page.locator('#livestreams .trial pre', { hasText: '"id": "open"' }).waitFor();
    // A log-in fills in the token of the user, for every call and language.
    await page.locator('#login button.try').click();
    await page.fill('#login .trial textarea', JSON.stringify({ identity, accessKey }));
    await page.locator('#login .trial button').click();
    await page.locator('#login .trial pre', { hasText: /^200/ }).waitFor();
    await page.selectOption('#language', 'typescript');
    assert.match(await page.locator('#entitlement pre[data-language]:visible').textContent(), /`Bearer pgu_/);
    assert.deepEqual(await barriers(page), []);
    // Kept in the tab, without the token of the user.
    await page.reload();
    await page.locator('#livestreams button.try').waitFor();
    await page.click('text=Forget it');
    assert.equal(await page.locator('button.try:visible').count(), 0);
    assert.match(await example.textContent(), /PARTNER_TOKEN,/);
    await context.close();
  });

  at('describes the operators\' interface too', async (page, id) => {
    await id('search').fill('rebuild indexes');
    assert.match((await shown(page)).join('\n'), /Rebuild the indexes/);
    // It has no address of its own, and names the variable of its examples.
    const text = await page.locator('main').textContent();
    assert.match(text, /Version \S+\. The operations listener/);
    assert.match(text, /examples name it OPERATOR_TOKEN/);
  }, { ops: true });
});

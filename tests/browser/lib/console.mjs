// An operator at the console, in a browser profile of their own, and what the browser held against the page.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const WITHIN_MS = 30_000; // generous: a busy machine
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What axe finds on a page: rules that are broken, with the first element. `only` names the rules to check. */
export async function barriers(page, only) {
  // The debugger's evaluation is not subject to the page's policy.
  await page.evaluate(AXE);
  const run = (runOnly) => globalThis.axe.run(document, { resultTypes: ['violations'], ...(runOnly && { runOnly }) });
  // A panel that is being redrawn is pale for that moment.
  const { violations } = await withoutRedraws(page, () => page.evaluate(run, only));
  return violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`);
}

/** Does `work` while no panel of the page redraws itself: they do not in a tab that is hidden. */
export async function withoutRedraws(page, work) {
  await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true, configurable: true }));
  await page.waitForFunction(() => !document.querySelector('[aria-busy]'));
  const result = await work();
  await page.evaluate(() => void delete document.hidden);
  return result;
}

const PHONE = { width: 390, height: 844 };

/** The console, not logged in. `phone` is one: small, and dark. `locale` is that of the browser. */
export async function openConsole(browser, { opsUrl }, { phone = false, locale = 'en-GB' } = {}) {
  const context = await browser.newContext({
    locale,
    timezoneId: 'Asia/Kolkata', // far from UTC, and not by whole hours
    ...(phone && { viewport: PHONE, colorScheme: 'dark' }),
  });
  context.setDefaultTimeout(WITHIN_MS);
  const page = await context.newPage();
  const complaints = [];
  // A refusal is an answer like others: the browser notes it, and the page shows it.
  page.on(
    'console',
    (said) => said.type() === 'error' && !/status of (4\d\d|502)/.test(said.text()) && complaints.push(said.text()),
  );
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', ({ violatedDirective: what }) => console.error(`policy: ${what}`));
  });
  await page.goto(opsUrl);
  return new Operator(context, page, complaints);
}

class Operator {
  #context;
  #complaints;

  constructor(context, page, complaints) {
    this.page = page;
    this.#context = context;
    this.#complaints = complaints;
  }

  /** Neither a script failed nor did the page's policy have to stop anything. */
  async close() {
    await this.#context.close();
    assert.deepEqual(this.#complaints, []);
  }

  /** Waits for the next complaint, which is then expected. */
  async complains() {
    if (!this.#complaints.length) await this.page.waitForEvent('console', (said) => said.type() === 'error');
    await this.page.evaluate(() => 0); // what the browser says at the same time has come, too
    return this.#complaints.splice(0).find((said) => said.startsWith('policy: '));
  }

  async logIn(token) {
    await this.page.fill('#token', token);
    await this.page.click('#log-in button');
  }

  /** Goes to a page of the console by its address, and waits until all of it is there. */
  async open(path) {
    const hash = `#/${path}`;
    const isThere = await this.page.evaluate((wanted) => location.hash === wanted, hash);
    if (isThere) return this.settled();
    return this.#leave(() => this.page.evaluate((wanted) => void (location.hash = wanted), hash));
  }

  /** Clicks on what leads to another page of the console, and waits until all of that is there. */
  follow(link) {
    return this.#leave(() => link.click());
  }

  /** Does `work`, which changes the address, and waits until all of the new page is there. */
  async #leave(work) {
    const seen = await this.page.evaluateHandle(() => {
      const state = { drawn: false };
      // The console listens since the page was loaded, so it hears of the change first.
      addEventListener('hashchange', () => (state.drawn = true), { once: true });
      return state;
    });
    await work();
    await this.page.waitForFunction(({ drawn }) => drawn, seen);
    await this.settled();
  }

  settled() {
    return this.page.waitForFunction(
      () => document.querySelector('#main h1') && !document.querySelector('[aria-busy]'),
    );
  }

  /** What axe finds on the page, light and dark. The scheme changes colours only. */
  async barriers() {
    const found = await barriers(this.page);
    const other = await this.page.evaluate(() => (matchMedia('(prefers-color-scheme: dark)').matches ? 'light' : 'dark'));
    await this.page.emulateMedia({ colorScheme: other });
    const more = await barriers(this.page, ['color-contrast']);
    await this.page.emulateMedia({ colorScheme: null });
    return [...found, ...more.map((one) => `${other}: ${one}`)];
  }

  /** The section with this title. */
  panel(title) {
    return this.page.getByRole('region', { name: title, exact: true });
  }

  /** Waits for words in a place, the whole page if none is named. */
  sees(words, where = this.page.locator('#main')) {
    return where.getByText(words).first().waitFor();
  }

  /** Waits to be told what was done, in a place. */
  isTold(words, where = this.page.locator('#main')) {
    return where.getByRole('status').filter({ hasText: words }).first().waitFor();
  }

  /** Waits to be told why something was not done, in a place. */
  isRefused(words, where = this.page.locator('#main')) {
    return where.getByRole('alert').filter({ hasText: words }).first().waitFor();
  }

  /** Presses a button that asks before it does something; what it asked. */
  async confirm(button) {
    await button.click();
    const dialog = this.page.locator('#question');
    // A question may come after a request for what it tells.
    await dialog.waitFor();
    const question = await dialog.locator('p').first().textContent();
    await dialog.locator('[value=yes]').click();
    return question;
  }

  /** What the tab keeps, wherever a page can keep something. */
  async keeps() {
    const storage = () => [Object.values({ ...sessionStorage }), Object.values({ ...localStorage }), location.href];
    const [session, local, address] = await this.page.evaluate(storage);
    return { session, local, address, cookies: await this.#context.cookies() };
  }
}

// The page behind the link of a reset mail, in a browser: language, what a password manager needs, a slow link.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { call, signUp } from './lib/partner.mjs';

const EMAIL = 'ann@example.org';
const NEW = 'goats gruff and gruffer';

describe('the reset page', { skip }, () => {
  let appliance;
  let browser;

  before(async () => {
    [appliance, browser] = await Promise.all([startAppliance(), launch()]);
    await signUp(appliance.demo, EMAIL, 'Ann');
  });

  after(async () => {
    await browser?.close();
    await appliance?.stop();
  });

  async function mailedLink() {
    await call(appliance.demo, 'POST', '/api/login/v2/password/send-reset-password', {}, { email: EMAIL });
    const [newest] = (await appliance.operate('GET', '/admin/v1/mail')).filter(({ kind }) => kind === 'reset');
    const { text } = await appliance.operate('GET', `/admin/v1/mail/${newest.id}`);
    return text.match(/http:\S+/)[0];
  }

  it('speaks the language of the browser and names the account to password managers', async () => {
    const link = await mailedLink();
    const context = await browser.newContext({ locale: 'sv-SE' });
    const page = await context.newPage();
    await page.goto(link);
    assert.equal(await page.getAttribute('html', 'lang'), 'sv');
    const fields = await page.$$eval('form input:not([type=hidden])', (inputs) =>
      inputs.map((input) => [input.autocomplete, input.value, input.labels[0]?.textContent]),
    );
    assert.deepEqual(fields, [
      ['username', EMAIL, 'Konto'],
      ['new-password', '', 'Nytt lösenord'],
      ['new-password', '', 'Nytt lösenord igen'],
    ]);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'password');
    // A mistake keeps the account and the token.
    await page.fill('#password', NEW);
    await page.fill('#again', 'something else');
    await page.click('button');
    assert.match(await page.textContent('[role=alert]'), /inte lika/);
    assert.equal(await page.inputValue('#username'), EMAIL);
    await page.fill('#password', 'password1234');
    await page.fill('#again', 'password1234');
    await page.click('button');
    assert.match(await page.textContent('[role=alert]'), /lösenord/i);
    await context.close();
  });

  it('says that the password is changed to a viewer whose first answer was lost, and who clicks again', async () => {
    const page = await browser.newPage({ locale: 'de-DE' });
    await page.goto(await mailedLink());
    let posts = 0;
    let reach;
    const reached = new Promise((done) => (reach = done));
    await page.route('**/reset', async (route) => {
      posts += 1;
      if (posts > 1) return route.continue();
      // The server gets the form. Its answer does not arrive, and the form stays.
      await route.fetch();
      await route.abort('aborted');
      reach();
    });
    await page.fill('#password', NEW);
    await page.fill('#again', NEW);
    await page.click('button', { noWaitAfter: true });
    await reached;
    await page.click('button', { noWaitAfter: true });
    await page.waitForSelector('[role=status]');
    assert.equal(posts, 2);
    assert.equal(await page.getAttribute('html', 'lang'), 'de');
    const { newUser } = await call(appliance.demo, 'POST', '/api/login/v2/auth/email', {}, { identity: EMAIL, accessKey: NEW });
    assert.equal(newUser, false);
    await page.close();
  });
});

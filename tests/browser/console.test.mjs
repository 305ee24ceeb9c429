// The operators' console in a browser: who gets in, what it shows and does, and what it lets nobody do.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { openConsole } from './lib/console.mjs';
import { importGuide, serverTime, startGuides } from './lib/guide.mjs';
import { play, signUp } from './lib/partner.mjs';
import { startSite } from './lib/site.mjs';

const MARKUP = '<img src=x onerror="window.ran=1">';
const UNKNOWN = `pgo_${'A'.repeat(43)}`;

describe('the console', () => {
  let appliance, browser, demo, guides;

  before(async () => {
    if (skip) return;
    guides = await startGuides();
    const config = `[[epg.sources]]\nname = "main"\nurl = "${guides.address}"\ninterval = 86400\n`;
    appliance = await startAppliance({ PLAYGATE_ENVIRONMENT: 'staging' }, config);
    demo = appliance.demo;
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await appliance?.stop();
    await guides?.stop();
  });

  /** Steps of an operator: the demo's administrator, or whoever's token is given; `null` is nobody yet. */
  function as(name, steps, { token, ...how } = {}) {
    test(name, { skip, timeout: 120_000 }, async () => {
      const operator = await openConsole(browser, demo, how);
      if (token !== null) {
        await operator.logIn((await token?.()) ?? demo.operatorToken);
        await operator.settled();
      }
      await steps(operator, operator.page);
      await operator.close();
    });
  }

  const add = async (name, role) => (await appliance.operate('POST', '/admin/v1/operators', { name, role })).token;
  const someone = (name) => signUp(demo, `${crypto.randomUUID()}@example.org`, name);

  as(
    'lets in who has a token, and keeps it nowhere but in the tab',
    async (operator, page) => {
      assert.equal(new URL(page.url()).pathname, '/console/');
      for (const wrong of ['nonsense', 'två ord', UNKNOWN]) {
        await operator.logIn(wrong);
        await page.getByRole('alert').getByText(/token/).waitFor();
        assert.equal(await page.locator('#main').isVisible(), false);
        assert.deepEqual((await operator.keeps()).session, []);
      }
      await operator.logIn(demo.operatorToken);
      await operator.settled();
      await operator.sees('Ready');
      assert.equal(await page.locator('#environment').textContent(), 'staging');
      await operator.sees(demo.baseUrl);
      const kept = await operator.keeps();
      assert.deepEqual([kept.session, kept.local, kept.cookies], [[demo.operatorToken], [], []]);
      assert.ok(!kept.address.includes('pgo_'));

      // It is there again when the tab is loaded anew, and gone with the log-out.
      await page.reload();
      await operator.settled();
      await page.click('#log-out');
      assert.deepEqual((await operator.keeps()).session, []);
      await page.reload();
      await page.locator('#log-in').waitFor();
      assert.equal(await page.locator('#main').textContent(), '');
    },
    { token: null },
  );

  as(
    'is used with the keyboard alone',
    async (operator, page) => {
      // The cursor waits in the field.
      await page.keyboard.type(demo.operatorToken);
      await page.keyboard.press('Enter');
      await operator.settled();
      const focused = () => page.evaluate(() => document.activeElement.textContent);
      assert.equal(await focused(), 'Overview');
      while ((await focused()) !== 'Why?') await page.keyboard.press('Shift+Tab');
      await page.keyboard.press('Enter');
      await page.getByLabel('User', { exact: true }).waitFor();
      assert.equal(await focused(), 'Why?');
      await page.keyboard.press('Tab');
      await page.keyboard.type(demo.identity);
      await page.keyboard.press('Tab');
      await page.keyboard.type(demo.vod.premium);
      await page.keyboard.press('Enter');
      await operator.sees('NOT_ENTITLED');
    },
    { token: null },
  );

  as('tells why, and what an offer changes about it', async (operator, page) => {
    const ask = async () => {
      await operator.open('why');
      await page.getByLabel('User', { exact: true }).fill(demo.identity);
      await page.getByLabel('Asset', { exact: true }).fill(demo.vod.premium);
      await page.getByRole('button', { name: 'Why?' }).click();
      await operator.panel('Answer').getByText('Looked at').first().waitFor();
      return operator.panel('Answer').textContent();
    };
    assert.match(await ask(), /^AnswerNo NOT_ENTITLED.*the user does not have it/);
    await page.getByRole('link', { name: demo.identity }).click();
    const offers = operator.panel('Offers');
    await offers.getByLabel('Offer', { exact: true }).selectOption('premium');
    await offers.getByRole('button', { name: 'Give' }).click();
    await operator.isTold('“premium” was given.', offers);
    await operator.sees('active', offers);
    assert.match(await ask(), /^AnswerYes.*the user has it until \d{4}-/);

    // It asks before it takes something away, and does nothing if it is told not to.
    await page.getByRole('link', { name: demo.identity }).click();
    const revoke = offers.getByRole('button', { name: 'Revoke premium' });
    await revoke.click();
    await page.keyboard.press('Escape');
    await page.locator('#question').waitFor({ state: 'hidden' });
    await operator.sees('active', offers);
    assert.match(await operator.confirm(revoke), /^Take the offer “premium” back/);
    await operator.isTold('“premium” was taken back.', offers);
    await operator.sees('revoked', offers);
    assert.match(await ask(), /^AnswerNo NOT_ENTITLED/);

    // The answer has an address, and what cannot be answered says so where it was asked.
    await page.reload();
    await operator.sees('NOT_ENTITLED');
    await operator.open(`why/${'A'.repeat(22)}/open`);
    await operator.isRefused('There is no such user.', operator.panel('Answer'));
  });

  as('finds a user, ends what they play, and shuts the account', async (operator, page) => {
    const user = await someone('Ann');
    const beat = await play(demo, user, demo.vod.open);
    assert.equal(await beat(), 200);
    await operator.open('users');
    await page.getByLabel('User', { exact: true }).fill(`nobody-${user.email}`);
    await page.getByRole('button', { name: 'Find' }).click();
    await operator.isRefused('There is no such user.', operator.panel('Find'));
    await page.getByLabel('User', { exact: true }).fill(user.email);
    await page.getByRole('button', { name: 'Find' }).click();
    await operator.sees('Telly 5', operator.panel('Playing now'));
    assert.ok(page.url().endsWith(`#/users/${user.userId}`), page.url());

    const end = operator.panel('Playing now').getByRole('button', { name: /^End/ });
    assert.match(await operator.confirm(end), /End this session\?/);
    await operator.sees('Nothing is playing.', operator.panel('Playing now'));
    assert.equal(await beat(), 410);

    const account = operator.panel('Account');
    await operator.confirm(account.getByRole('button', { name: 'Shut the account' }));
    await operator.isTold('The account is shut.', account);
    assert.equal((await appliance.operate('GET', `/admin/v1/users/${user.userId}`)).disabled, true);
    await account.getByRole('button', { name: 'Open the account' }).click();
    await operator.isTold('The account is open.', account);
  });

  as('logs a user out everywhere', async (operator) => {
    const user = await someone('Bo');
    await operator.open(`users/${user.userId}`);
    const logins = operator.panel('Logged in');
    await operator.confirm(logins.getByRole('button', { name: 'Log out everywhere' }));
    await operator.isTold('They are logged out everywhere.', logins);
    assert.deepEqual(await appliance.operate('GET', `/admin/v1/users/${user.userId}/sessions`), []);
  });

  as('mails a user a link to choose a password', async (operator) => {
    const user = await someone('Cy');
    await operator.open(`users/${user.userId}`);
    const logins = operator.panel('Logged in');
    await logins.getByRole('button', { name: 'Mail a link to choose a password' }).click();
    await operator.isTold('A link to choose a password is on its way.', logins);
    const [mail] = await appliance.operate('GET', '/admin/v1/mail');
    assert.deepEqual([mail.kind, mail.to], ['reset', user.email]);
  });

  as('says otherwise of one broadcast, and takes it back', async (operator, page) => {
    const now = await serverTime(appliance);
    const id = `news-${now}-0`;
    await importGuide(appliance, 'news', [['Tonight', now, now + 600]]);
    await operator.open(`broadcast/${id}`);
    const rights = operator.panel('Rights');
    await rights.getByLabel('Live', { exact: true }).selectOption('no');
    await rights.getByRole('button', { name: 'Set' }).click();
    await operator.isTold('Said of this broadcast: live false.', rights);
    const said = () => appliance.operate('GET', `/admin/v1/broadcasts/${id}/why`);
    assert.equal((await said()).liveAvailable, false);
    await operator.open('schedule');
    await operator.sees('not live', page.getByRole('row').filter({ hasText: 'Tonight' }));
    await operator.open(`broadcast/${id}`);
    await operator.confirm(rights.getByRole('button', { name: 'Take it back' }));
    await operator.isTold(/livestream and rules/, rights);
    assert.equal((await said()).liveAvailable, true);
  });

  as('fetches a guide, and takes one that is held when it is told to', async (operator) => {
    await operator.open('guides');
    const livestream = [{ id: 'guided', name: 'Guided', live_rights: true }];
    await appliance.operate('POST', '/admin/v1/catalog/import?merge', { livestream });
    const main = operator.panel('main');
    guides.programmes = 40;
    await main.getByRole('button', { name: 'Fetch now' }).click();
    await operator.isTold(/^Taken: .* added/, main);
    guides.programmes = 4;
    await main.getByRole('button', { name: 'Fetch now' }).click();
    await operator.isRefused(/IMPORT_HELD 409.*the guide ends on/, main);
    await operator.sees('held', main);
    assert.match(
      await operator.confirm(main.getByRole('button', { name: 'Accept' })),
      /^Fetch main and take its guide/,
    );
    await operator.isTold(/^Accepted: .* 4 as before/, main);
    guides.programmes = null;
    await main.getByRole('button', { name: 'Fetch now' }).click();
    await operator.isRefused(/GUIDE_SOURCE_FAILED/, main);
    await operator.sees('failing', main);
  });

  as('shows markup as text, whoever brings it', async (operator, page) => {
    const user = await someone(MARKUP);
    const now = await serverTime(appliance);
    await importGuide(appliance, 'cinema', [[MARKUP, now - 60, now + 600]]);
    await appliance.operate('POST', '/admin/v1/partners', { name: MARKUP });
    await appliance.operate('POST', '/admin/v1/operators', { name: MARKUP, role: 'agent' });
    for (const path of [
      'users',
      `users/${user.userId}`,
      'schedule',
      'schedule/cinema',
      `broadcast/cinema-${now - 60}-0`,
      'access',
      'why',
    ]) {
      await operator.open(path);
      await page.locator('#main').getByText(MARKUP).first().waitFor({ state: 'attached' });
      assert.equal(await page.locator('#main img').count(), 0, path);
    }
    // In an address, and in what is asked for: it comes back in refusals and questions.
    await operator.open(`why/${encodeURIComponent(MARKUP)}/${encodeURIComponent(MARKUP)}`);
    await operator.open(encodeURIComponent(MARKUP));
    await operator.open('access');
    const remove = operator.panel('Operators').getByRole('button', { name: `Remove ${MARKUP}` });
    assert.ok((await operator.confirm(remove)).includes(MARKUP));
    await operator.isTold(`${MARKUP} is no longer an operator.`, operator.panel('Operators'));
    assert.equal(await page.locator('img').count(), 2, 'its own pictures');
    // The control: read as markup it would have been stopped by the page's policy, and heard of.
    await page.evaluate((markup) => void (document.createElement('div').innerHTML = markup), MARKUP);
    assert.match(await operator.complains(), /^policy: script-src/);
    assert.equal(await page.evaluate(() => window.ran), undefined);
  });

  as('tells a token once', async (operator, page) => {
    await operator.open('access');
    const operators = operator.panel('Operators');
    await operators.getByLabel('Name', { exact: true }).fill('Once');
    await operators.getByLabel('Role', { exact: true }).selectOption('content');
    await operators.getByRole('button', { name: 'Add an operator' }).click();
    const token = await operators.locator('.secret code').textContent();
    const answer = await fetch(new URL('/admin/v1/about', demo.opsUrl), {
      headers: { Authorization: `Bearer ${token}` },
    });
    assert.deepEqual([(await answer.json()).role, answer.status], ['content', 200]);
    await operator.open('overview');
    await operator.open('access');
    assert.equal(await page.getByText(token).count(), 0);
    // A name twice is refused where it was typed.
    await operators.getByLabel('Name', { exact: true }).fill('Once');
    await operators.getByRole('button', { name: 'Add an operator' }).click();
    await operator.isRefused('NAME_IN_USE', operators);
  });

  as('makes a backup and verifies it', async (operator) => {
    await operator.open('store');
    const verify = operator.page.getByRole('button', { name: /^Verify 2/ });
    await operator.page.getByRole('button', { name: 'Back up now' }).click();
    await operator.isTold(/ was made and read back: /);
    await verify.first().click();
    await operator.isTold(/ is sound: /);
    await operator.panel('Store').getByRole('button', { name: 'Verify the store' }).click();
    await operator.sees('sound', operator.panel('Store').getByRole('definition').first());
  });

  as(
    'tells an agent plainly what is not theirs',
    async (operator, page) => {
      assert.match(await page.locator('#who').textContent(), /Agnes · agent/);
      const pages = await page.locator('#nav a').allTextContents();
      assert.ok(pages.includes('Users') && !pages.includes('Audit') && !pages.includes('Access'), String(pages));
      for (const path of ['audit', 'catalog', 'guides', 'store', 'access', 'quality']) {
        await operator.open(path);
        await operator.isRefused(/^Your role does not allow this; ask an administrator\..* ROLE_NOT_ALLOWED 403$/);
      }
      // Offers are in the catalogue, which an agent does not see: their ids are typed.
      const user = await someone('Cia');
      await operator.open(`users/${user.userId}`);
      const offers = operator.panel('Offers');
      await offers.getByLabel('Offer', { exact: true }).fill('nothing');
      await offers.getByRole('button', { name: 'Give' }).click();
      await operator.isRefused('OFFER_NOT_FOUND', offers);
      await offers.getByLabel('Offer', { exact: true }).fill('premium');
      await offers.getByRole('button', { name: 'Give' }).click();
      await operator.isTold('“premium” was given.', offers);
      assert.equal(await offers.getByRole('alert').count(), 0);
    },
    { token: () => add('Agnes', 'agent') },
  );

  as(
    'shows the log-in again when the token is revoked',
    async (operator, page) => {
      await appliance.operate('DELETE', '/admin/v1/operators/Gone');
      await page.getByRole('link', { name: 'Users' }).click();
      await page
        .getByRole('alert')
        .getByText(/no longer valid/)
        .waitFor();
      assert.deepEqual((await operator.keeps()).session, []);
      // Who logs in then is where the other one was.
      await operator.logIn(demo.operatorToken);
      await operator.settled();
      assert.equal(await page.locator('#main h1').textContent(), 'Users');
    },
    { token: () => add('Gone', 'admin') },
  );

  const PAGES =
    'overview why users sessions mail schedule schedule/open catalog guides quality store audit access'.split(' ');
  for (const phone of [false, true]) {
    as(
      `has every page, without one that is wider than a ${phone ? 'phone' : 'screen'}`,
      async (operator, page) => {
        for (const path of PAGES) {
          await operator.open(path);
          const [shown, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
          assert.ok(shown <= room, `${path}: ${shown} of ${room}`);
          assert.equal(await page.locator('#main .refusal').count(), 0, path);
          // What can be pressed or filled in has a name.
          const nameless = await page
            .locator('#main input, #main select')
            .evaluateAll((all) => all.filter((one) => !one.labels.length).length);
          assert.equal(nameless, 0, path);
        }
      },
      { phone },
    );
  }

  as('shows times where the operator is, and UTC beside them', async (operator, page) => {
    await operator.open('audit');
    const time = page.locator('#main time').first();
    const [iso, utc, shown] = await time.evaluate((at) => [at.dateTime, at.title, at.textContent]);
    assert.equal(utc, `${iso.slice(0, 19).replace('T', ' ')} UTC`);
    const here = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short', timeZone: 'Asia/Kolkata' }).format(
      new Date(iso),
    );
    assert.ok(shown.endsWith(here), `${shown}, not ${here}`);
  });

  test('is read and framed by no page of another origin', { skip }, async () => {
    const site = await startSite();
    const page = await browser.newPage();
    await page.goto(site.address);
    const read = (path) =>
      page.evaluate(
        (url) =>
          fetch(url).then(
            () => 'read',
            () => 'refused',
          ),
        `${demo.opsUrl}${path}`,
      );
    for (const path of ['/console/', '/console/console.js', '/readyz', '/metrics', '/admin/v1/about']) {
      assert.equal(await read(path), 'refused', path);
    }
    const framed = await page
      .evaluate(async (url) => {
        const frame = Object.assign(document.createElement('iframe'), { src: url });
        const loaded = new Promise((done) => frame.addEventListener('load', done));
        document.body.append(frame);
        await loaded;
      }, `${demo.opsUrl}/console/`)
      .then(() => page.frames().at(-1).url());
    assert.match(framed, /^chrome-error:/);
    await page.close();
    await site.stop();
  });
});

// The operators' console in a browser: login, pages, actions, and isolation from other origins.
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

  /** A test logged in with the demo's administrator token, or with `token`; not logged in if it is `null`. */
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
    'requires a valid token, and keeps it in the tab only',
    async (operator, page) => {
      assert.equal(new URL(page.url()).pathname, '/console/');
      await page.locator('#log-in').waitFor();
      assert.deepEqual(await operator.barriers(), []);
      // Each is refused in other words than the one before it, whose refusal stays until the answer.
      for (const [wrong, words] of [
        ['nonsense', 'Unknown token'],
        ['två ord', 'not a valid operator token'],
        [UNKNOWN, 'Unknown token'],
      ]) {
        await operator.logIn(wrong);
        await page.getByRole('alert').getByText(words).waitFor();
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

      // A reload keeps the token; logging out removes it.
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
    'can be used with the keyboard alone',
    async (operator, page) => {
      // The token field has the focus.
      await page.keyboard.type(demo.operatorToken);
      await page.keyboard.press('Enter');
      await operator.settled();
      const focused = () => page.evaluate(() => document.activeElement.textContent);
      assert.equal(await focused(), 'Overview');
      while ((await focused()) !== 'Entitlement check') await page.keyboard.press('Shift+Tab');
      await page.keyboard.press('Enter');
      await page.getByLabel('User', { exact: true }).waitFor();
      assert.equal(await focused(), 'Entitlement check');
      await page.keyboard.press('Tab');
      await page.keyboard.type(demo.identity);
      await page.keyboard.press('Tab');
      await page.keyboard.type(demo.vod.premium);
      await page.keyboard.press('Enter');
      await operator.sees('NOT_ENTITLED');
    },
    { token: null },
  );

  as('explains an entitlement decision, before and after a grant', async (operator, page) => {
    const ask = async () => {
      await operator.open('why');
      await page.getByLabel('User', { exact: true }).fill(demo.identity);
      await page.getByLabel('Asset', { exact: true }).fill(demo.vod.premium);
      await page.getByRole('button', { name: 'Check' }).click();
      await operator.panel('Result').getByText('Finding').first().waitFor();
      return operator.panel('Result').textContent();
    };
    assert.match(await ask(), /^ResultDenied NOT_ENTITLED.*the user does not have it/);
    await page.getByRole('link', { name: demo.identity }).click();
    const offers = operator.panel('Offers');
    await offers.getByLabel('Offer', { exact: true }).selectOption('premium');
    await offers.getByRole('button', { name: 'Grant' }).click();
    await operator.isTold('Granted “premium”.', offers);
    await operator.sees('active', offers);
    assert.match(await ask(), /^ResultGranted.*the user has it until \d{4}-/);

    // Revoking needs a confirmation; cancelling changes nothing.
    await page.getByRole('link', { name: demo.identity }).click();
    const revoke = offers.getByRole('button', { name: 'Revoke premium' });
    await revoke.click();
    await page.keyboard.press('Escape');
    await page.locator('#question').waitFor({ state: 'hidden' });
    await operator.sees('active', offers);
    assert.match(await operator.confirm(revoke), /^Revoke the offer “premium”/);
    await operator.isTold('Revoked “premium”.', offers);
    await operator.sees('revoked', offers);
    assert.match(await ask(), /^ResultDenied NOT_ENTITLED/);

    // The result survives a reload, and errors appear in its panel.
    await page.reload();
    await operator.sees('NOT_ENTITLED');
    await operator.open(`why/${'A'.repeat(22)}/open`);
    await operator.isRefused('There is no such user.', operator.panel('Result'));
  });

  as('offers the users of a name where an e-mail address or id is expected', async (operator, page) => {
    const fatima = await someone('Fatima Unique');
    const offered = page.getByRole('button', { name: fatima.email });
    const ask = async (path, button) => {
      await operator.open(path);
      await page.getByLabel('User', { exact: true }).fill('fatima u');
      if (path === 'why') await page.getByLabel('Asset', { exact: true }).fill('open');
      await page.getByRole('button', { name: button }).click();
      await offered.waitFor();
      assert.deepEqual(await operator.barriers(), []);
      await offered.click();
    };
    await ask('why', 'Check');
    await operator.panel('Result').getByRole('link', { name: fatima.email }).waitFor();
    await ask('requests', 'Find requests');
    await page.waitForURL((url) => url.hash === `#/requests?user=${fatima.userId}`);
  });

  as('offers the users of a name also if they belong to another partner than the chosen one', async (operator, page) => {
    await appliance.operate('POST', '/admin/v1/partners', { name: 'A small partner' });
    const greta = await someone('Greta Unique');
    await operator.open('why');
    // The partner with the most users is proposed.
    assert.equal(await page.getByLabel('Partner').evaluate((one) => one.selectedOptions[0].text), 'demo');
    await page.getByLabel('Partner').selectOption('A small partner');
    await page.getByLabel('User', { exact: true }).fill('greta');
    await page.getByLabel('Asset', { exact: true }).fill('open');
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByRole('button', { name: greta.email }).click();
    await operator.panel('Result').getByRole('link', { name: greta.email }).waitFor();
    await appliance.operate('DELETE', '/admin/v1/partners/A%20small%20partner').catch(() => {});
  });

  as(
    'has its pages in a menu on a phone, which names the current page',
    async (operator, page) => {
      const menu = page.locator('#menu');
      assert.equal(await menu.textContent(), 'Menu: Overview');
      const link = page.getByRole('link', { name: 'Quality', exact: true });
      assert.equal(await link.isVisible(), false);
      await menu.click();
      assert.deepEqual(await operator.barriers(), []);
      await menu.press('Escape');
      assert.equal(await link.isVisible(), false);
      await menu.press('Enter');
      await operator.follow(link);
      assert.deepEqual([await menu.textContent(), await link.isVisible()], ['Menu: Quality', false]);
    },
    { phone: true },
  );

  as('finds a user, ends a playback session, and disables the account', async (operator, page) => {
    const user = await someone('Ann');
    const beat = await play(demo, user, demo.vod.open);
    assert.equal(await beat(), 200);
    await operator.open('users');
    const search = page.getByLabel('Part of e-mail, name or id');
    await search.fill(`nobody-${user.email}`);
    await operator.sees('Nothing matches.');
    await search.fill(user.email.slice(3, 20).toUpperCase());
    await page.getByRole('link', { name: user.email }).click();
    await operator.sees('Telly 5', operator.panel('Playback sessions'));
    assert.ok(page.url().endsWith(`#/users/${user.userId}`), page.url());

    const end = operator.panel('Playback sessions').getByRole('button', { name: /^End/ });
    assert.match(await operator.confirm(end), /End this session\?/);
    await operator.sees('No playback sessions.', operator.panel('Playback sessions'));
    assert.equal(await beat(), 410);

    const account = operator.panel('Account');
    await operator.confirm(account.getByRole('button', { name: 'Disable account' }));
    await operator.isTold('Account disabled.', account);
    assert.equal((await appliance.operate('GET', `/admin/v1/users/${user.userId}`)).disabled, true);
    await account.getByRole('button', { name: 'Enable account' }).click();
    await operator.isTold('Account enabled.', account);
  });

  as('logs a user out everywhere', async (operator) => {
    const user = await someone('Bo');
    await operator.open(`users/${user.userId}`);
    const logins = operator.panel('Login sessions');
    await operator.confirm(logins.getByRole('button', { name: 'Log out everywhere' }));
    await operator.isTold('Logged out everywhere.', logins);
    assert.deepEqual(await appliance.operate('GET', `/admin/v1/users/${user.userId}/sessions`), []);
  });

  as('sends a user a password reset mail', async (operator) => {
    const user = await someone('Cy');
    await operator.open(`users/${user.userId}`);
    const logins = operator.panel('Login sessions');
    await logins.getByRole('button', { name: 'Send password reset mail' }).click();
    await operator.isTold('Queued a password reset mail.', logins);
    const [mail] = await appliance.operate('GET', '/admin/v1/mail');
    assert.deepEqual([mail.kind, mail.to], ['reset', user.email]);
  });

  as('overrides the rights of a broadcast, and removes the override', async (operator, page) => {
    const now = await serverTime(appliance);
    const id = `news-${now}-0`;
    await importGuide(appliance, 'news', [['Tonight', now, now + 600]]);
    await operator.open(`broadcast/${id}`);
    const rights = operator.panel('Rights');
    await rights.getByLabel('Live', { exact: true }).selectOption('no');
    await rights.getByRole('button', { name: 'Set override' }).click();
    await operator.isTold('Override set: Live: no.', rights);
    const said = () => appliance.operate('GET', `/admin/v1/broadcasts/${id}/why`);
    assert.equal((await said()).liveAvailable, false);
    await operator.open('schedule');
    assert.match(await page.getByRole('link', { name: /^Tonight/ }).getAttribute('title'), /no live rights/);
    await operator.open(`broadcast/${id}`);
    await operator.confirm(rights.getByRole('button', { name: 'Remove override' }));
    await operator.isTold(/^Override removed/, rights);
    assert.equal((await said()).liveAvailable, true);
  });

  as('imports from an EPG source, and accepts an import that is held', async (operator, page) => {
    await operator.open('guides');
    await operator.follow(page.getByRole('link', { name: 'main', exact: true }));
    const livestream = [{ id: 'guided', name: 'Guided', live_rights: true }];
    await appliance.operate('POST', '/admin/v1/catalog/import?merge', { livestream });
    const main = page.locator('#main');
    guides.programmes = 40;
    await main.getByRole('button', { name: 'Import now' }).click();
    await operator.isTold(/^Imported: .* added/, main);
    guides.programmes = 4;
    await main.getByRole('button', { name: 'Import now' }).click();
    await operator.isRefused(/IMPORT_HELD 409.*the guide ends on/, main);
    await operator.sees('held', main);
    assert.match(
      await operator.confirm(main.getByRole('button', { name: 'Accept' })),
      /^Fetch the guide of main and import it/,
    );
    await operator.isTold(/^Accepted: .* 4 unchanged/, main);
    guides.programmes = null;
    await main.getByRole('button', { name: 'Import now' }).click();
    await operator.isRefused(/EPG_SOURCE_FAILED/, main);
    await operator.sees('failing', main);
  });

  as('shows markup from any source as text', async (operator, page) => {
    const user = await someone(MARKUP);
    const now = await serverTime(appliance);
    // An hour to each side: shortly before and after midnight, too, a part of the day is wide enough for the title.
    await importGuide(appliance, 'cinema', [[MARKUP, now - 3_600, now + 3_600]]);
    await appliance.operate('POST', '/admin/v1/partners', { name: MARKUP });
    await appliance.operate('POST', '/admin/v1/operators', { name: MARKUP, role: 'agent' });
    for (const path of [
      'users',
      `users/${user.userId}`,
      'schedule',
      'schedule/cinema',
      `broadcast/cinema-${now - 3_600}-0`,
      'access',
      'why',
    ]) {
      await operator.open(path);
      await page.locator('#main').getByText(MARKUP).first().waitFor({ state: 'attached' });
      assert.equal(await page.locator('#main img').count(), 0, path);
    }
    // Markup in the URL and in requests comes back in errors and confirmation questions.
    await operator.open(`why/${encodeURIComponent(MARKUP)}/${encodeURIComponent(MARKUP)}`);
    await operator.open(encodeURIComponent(MARKUP));
    await operator.open('access');
    const remove = operator.panel('Operators').getByRole('button', { name: `Remove ${MARKUP}` });
    assert.ok((await operator.confirm(remove)).includes(MARKUP));
    await operator.isTold(`Removed the operator ${MARKUP}.`, operator.panel('Operators'));
    assert.equal(await page.locator('img').count(), 2, 'the console’s own images');
    // The control: parsed as markup, it violates the page's CSP and is reported.
    await page.evaluate((markup) => void (document.createElement('div').innerHTML = markup), MARKUP);
    assert.match(await operator.complains(), /^policy: script-src/);
    assert.equal(await page.evaluate(() => window.ran), undefined);
  });

  as('shows a token once', async (operator, page) => {
    await operator.open('access');
    const operators = operator.panel('Operators');
    await operators.getByLabel('Name', { exact: true }).fill('Once');
    await operators.getByLabel('Role', { exact: true }).selectOption('content');
    await operators.getByRole('button', { name: 'Add operator' }).click();
    const token = await operators.locator('.secret code').textContent();
    const answer = await fetch(new URL('/admin/v1/about', demo.opsUrl), {
      headers: { Authorization: `Bearer ${token}` },
    });
    assert.deepEqual([(await answer.json()).role, answer.status], ['content', 200]);
    await operator.open('overview');
    await operator.open('access');
    assert.equal(await page.getByText(token).count(), 0);
    // A duplicate name is refused next to the form.
    await operators.getByLabel('Name', { exact: true }).fill('Once');
    await operators.getByRole('button', { name: 'Add operator' }).click();
    await operator.isRefused('NAME_IN_USE', operators);
  });

  as('makes a backup and verifies it', async (operator) => {
    await operator.open('store');
    const verify = operator.page.getByRole('button', { name: /^Verify 2/ });
    await operator.page.getByRole('button', { name: 'Create backup' }).click();
    await operator.isTold(/^Created and verified /);
    await verify.first().click();
    await operator.isTold(/ is intact: /);
    await operator.panel('Store').getByRole('button', { name: 'Verify store' }).click();
    await operator.sees('intact', operator.panel('Store').getByRole('definition').first());
  });

  as(
    'shows an agent which pages the role does not allow',
    async (operator, page) => {
      assert.match(await page.locator('#who').textContent(), /Agnes · agent/);
      const pages = await page.locator('#nav a').allTextContents();
      const hidden = ['Audit log', 'Partners, operators'].filter((name) => pages.includes(name));
      assert.deepEqual([pages.includes('Users'), hidden], [true, []], String(pages));
      for (const path of ['audit', 'catalog', 'guides', 'store', 'access', 'quality']) {
        await operator.open(path);
        await operator.isRefused(/^Your role does not allow this; ask an administrator\..* ROLE_NOT_ALLOWED 403$/);
      }
      // Agents have no access to the catalogue, so they type the ids of offers.
      const user = await someone('Cia');
      await operator.open(`users/${user.userId}`);
      const offers = operator.panel('Offers');
      await offers.getByLabel('Offer', { exact: true }).fill('nothing');
      await offers.getByRole('button', { name: 'Grant' }).click();
      await operator.isRefused('OFFER_NOT_FOUND', offers);
      await offers.getByLabel('Offer', { exact: true }).fill('premium');
      await offers.getByRole('button', { name: 'Grant' }).click();
      await operator.isTold('Granted “premium”.', offers);
      assert.equal(await offers.getByRole('alert').count(), 0);
    },
    { token: () => add('Agnes', 'agent') },
  );

  as(
    'shows the login form when the token is revoked',
    async (operator, page) => {
      // A page that asks for nothing by itself, which would show the form before the click.
      await operator.open('why');
      await appliance.operate('DELETE', '/admin/v1/operators/Gone');
      await page.getByRole('link', { name: 'Users' }).click();
      await page
        .getByRole('alert')
        .getByText(/no longer valid/)
        .waitFor();
      assert.deepEqual((await operator.keeps()).session, []);
      // The next login shows the same page.
      await operator.logIn(demo.operatorToken);
      await operator.settled();
      assert.equal(await page.locator('#main h1').textContent(), 'Users');
    },
    { token: () => add('Gone', 'admin') },
  );

  const PAGES =
    [
      'overview why requests users sessions mail schedule schedule?find=open schedule/open guides guides/main quality store fleet audit access',
      'catalog catalog/livestream/open catalog/asset catalog/assets catalog/offers catalog/rules catalog/import catalog/history',
    ].flatMap((line) => line.split(' '));
  for (const phone of [false, true]) {
    as(
      `fits every page on a ${phone ? 'phone' : 'screen'}`,
      async (operator, page) => {
        const { userId } = await someone('Dan');
        const [{ id }] = await appliance.operate('GET', `/admin/v1/requests?user=${userId}`);
        for (const path of [...PAGES, `users/${userId}`, `requests/${id}`, `why/${userId}/open`]) {
          await operator.open(path);
          const [shown, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
          assert.ok(shown <= room, `${path}: ${shown} of ${room}`);
          assert.equal(await page.locator('#main .refusal').count(), 0, path);
          // Every form control has a label.
          const nameless = await page
            .locator('#main input, #main select')
            .evaluateAll((all) => all.filter((one) => !one.labels?.length && !one.ariaLabel && one.type !== 'hidden').length);
          assert.equal(nameless, 0, path);
          assert.deepEqual(await operator.barriers(), [], path);
        }
      },
      { phone },
    );
  }

  as('shows times in the chosen zone, which they name, with UTC as tooltip', async (operator, page) => {
    await operator.open('audit');
    const check = async (zone, name) => {
      const time = page.locator('#main time').first();
      const [iso, utc, shown] = await time.evaluate((at) => [at.dateTime, at.title, at.textContent]);
      assert.equal(utc, `${iso.slice(0, 19).replace('T', ' ')} UTC`);
      const here = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium', timeZone: zone }).format(new Date(iso));
      assert.ok(shown.endsWith(`${here} ${name}`), `${shown}, not ${here} ${name}`);
    };
    await check('Asia/Kolkata', 'GMT+5:30');
    await page.locator('#choices').getByLabel('Time zone').selectOption('UTC');
    await page.locator('#main time', { hasText: 'UTC' }).first().waitFor();
    await check('UTC', 'UTC');
  });

  // Of each kind: a script that does not arrive, one that never ends, and an answer that fails after a reload.
  for (const [name, file, how] of [
    ['does not arrive', 'i18n.js', (route) => route.abort()],
    ['hangs', 'words_de.js', () => {}],
    ['is wrong', 'dom.js', (route) => route.fulfill({ contentType: 'text/javascript', body: 'throw 1' })],
  ]) {
    test(`says that it is still loading when a script ${name}, and loads again`, { skip, timeout: 120_000 }, async () => {
      const page = await browser.newPage();
      let disturb;
      const disturbed = new Promise((done) => (disturb = done));
      await page.route(`**/${file}`, async (route) => {
        await how(route);
        disturb();
      });
      await page.goto(`${demo.opsUrl}/console/`, { waitUntil: 'commit' });
      const again = page.getByRole('link', { name: 'Try again' });
      await again.waitFor();
      assert.deepEqual(await page.locator('#log-in').isVisible(), false);
      // On a busy machine the page may say so before it has asked for the script.
      await disturbed;
      await page.unroute(`**/${file}`);
      // A script that hung arrives now, and the page goes on by itself.
      if (name !== 'hangs') await again.click();
      await page.locator('#log-in').waitFor();
      assert.equal(await again.count(), 0);
      await page.close();
    });
  }

  as('offers to try again when the server does not answer a reload', async (operator, page) => {
    await page.route('**/admin/v1/about', (route) => route.fulfill({ status: 502, body: '' }));
    await page.reload();
    await operator.sees('The server answered with status 502.');
    await page.unroute('**/admin/v1/about');
    await page.getByRole('button', { name: 'Try again' }).click();
    await operator.settled();
    await operator.sees('Ready');
  });

  test('cannot be read or framed by another origin', { skip }, async () => {
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
    await page.evaluate(async (url) => {
      const frame = Object.assign(document.createElement('iframe'), { src: url });
      const loaded = new Promise((done) => frame.addEventListener('load', done));
      document.body.append(frame);
      await loaded;
    }, `${demo.opsUrl}/console/`);
    // Of the frame's address Playwright hears from another process than of its end.
    const framed = () => page.frames().find((frame) => frame !== page.mainFrame())?.url() ?? '';
    while (['', ':', 'about:blank'].includes(framed())) await page.waitForTimeout(50);
    assert.match(framed(), /^chrome-error:/);
    await page.close();
    await site.stop();
  });
});

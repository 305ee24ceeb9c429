// What operators do at the console: lists, the guide grid, charts, the catalogue, backups, languages.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { startAppliance, startEmpty } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { openConsole, withoutRedraws } from './lib/console.mjs';
import { importGuide, serverTime, startGuides } from './lib/guide.mjs';
import { play, report, signUp } from './lib/partner.mjs';

const USERS = 60;
const DAY_MS = 86_400_000;

describe('operators at the console', () => {
  let appliance, browser, demo, guides;

  before(async () => {
    if (skip) return;
    guides = await startGuides();
    const config = `[[epg.sources]]\nname = "main"\nurl = "${guides.address}"\ninterval = 86400\n`;
    appliance = await startAppliance({}, config);
    demo = appliance.demo;
    browser = await launch();
    for (let i = 0; i < USERS; i += 1) {
      const body = { email: `user-${i}@lists.example`, name: i % 2 ? 'Åsa Öberg' : '=SUM(A1)', country: 'SE' };
      await appliance.operate('POST', '/admin/v1/users', body);
    }
  });

  after(async () => {
    await browser?.close();
    await appliance?.stop();
    await guides?.stop();
  });

  function as(name, steps, { token, ...how } = {}) {
    test(name, { skip, timeout: 120_000 }, async () => {
      const operator = await openConsole(browser, demo, how);
      await operator.logIn((await token?.()) ?? demo.operatorToken);
      await operator.settled();
      await steps(operator, operator.page);
      await operator.close();
    });
  }

  const rows = (page) => page.locator('#main tbody tr');
  const user = (search) => appliance.operate('GET', `/admin/v1/users?search=${search}`);

  as('searches, filters, sorts and pages users, and keeps that in the address', async (operator, page) => {
    await operator.open('users');
    await operator.sees(/^1–25 of \d+$/);
    await page.getByLabel('Part of e-mail, name or id').fill('öBERG');
    await operator.sees('1–25 of 30');
    await page.getByRole('button', { name: 'Next' }).click();
    await operator.sees('26–30 of 30');
    assert.equal(await rows(page).count(), 5);
    assert.match(page.url(), /q=%C3%B6BERG&sort=-created&page=2/);
    await page.reload();
    await operator.settled();
    assert.equal(await rows(page).count(), 5, 'the address has the state');
    // Sorting starts with the first page, and the header keeps the focus.
    const email = page.getByRole('button', { name: /^E-mail/ });
    await email.click();
    await operator.sees('1–25 of 30');
    await page.getByRole('button', { name: /^E-mail/ }).press('Enter');
    await page.locator('th[aria-sort=descending]').waitFor();
    await operator.settled();
    assert.match(await rows(page).first().textContent(), /user-9@/);
    await page.locator('#main').getByLabel('State').selectOption('disabled');
    await operator.sees('Nothing matches.');
    // The id of one user finds that user alone.
    const [{ userId }] = await user('user-7@');
    await operator.open(`users?q=${userId.slice(4, 16)}`);
    assert.equal(await rows(page).count(), 1);
  });

  as('finds entries of a list by their words in any order, without accents', async (operator, page) => {
    const livestream = [{ id: 'regional', name: 'Östra Kanalen' }, { id: 'sea', name: 'Sørlandet' }];
    await appliance.operate('POST', '/admin/v1/catalog/import?merge', { livestream });
    const found = async (path, search, name) => {
      await operator.open(path);
      await page.getByLabel('Search', { exact: true }).fill(search);
      await operator.sees('1 entry');
      await operator.settled();
      await page.locator('#main').getByRole('link', { name, exact: true }).waitFor();
    };
    await found('catalog', 'kanalen ostra', 'Östra Kanalen');
    await found('catalog', 'SORLANDET', 'Sørlandet');
    // A word that no text of the entry has.
    await page.getByLabel('Search', { exact: true }).fill('sorlandet ostra');
    await operator.sees('Nothing matches.');
    await operator.open('schedule?channel=kanalen%20ostra');
    await page.locator('.channel', { hasText: 'Östra Kanalen' }).waitFor();
    assert.equal(await page.locator('a.channel').count(), 1);
  });

  as('shows playback sessions and views on one line each, within a screen', async (operator, page) => {
    const viewer = await signUp(demo, `${crypto.randomUUID()}@a-long-domain-name.example.org`, 'Vera');
    await play(demo, viewer, demo.vod.open).then((beat) => beat());
    await play(demo, viewer, 'open').then((beat) => beat());
    // Views follow the requests by some tenths of a second, and the page, which is drawn once, has those before the present.
    const viewed = async () => {
      const views = await appliance.operate('GET', `/admin/v1/telemetry/views?to=${await serverTime(appliance)}`);
      return views.some(({ email }) => email === viewer.email);
    };
    for (let tries = 0; tries < 300 && !(await viewed()); tries += 1) await new Promise((done) => setTimeout(done, 100));
    for (const path of ['sessions', 'quality?hours=1']) {
      await operator.open(path);
      const row = page.locator('#main tr', { has: page.getByTitle(viewer.email) }).first();
      await row.waitFor();
      const [height, line] = await row.evaluate((one) => [one.offsetHeight, parseFloat(getComputedStyle(one).lineHeight)]);
      assert.ok(height < 2 * line, `${path}: ${height} px of ${line} px lines`);
      const hidden = (all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => `${one.scrollWidth} of ${one.clientWidth}`);
      assert.deepEqual(await page.locator('#main .scroll').evaluateAll(hidden), [], path);
    }
  });

  as(
    'sorts a list and selects its page on a phone, where tables have no heads',
    async (operator, page) => {
      await operator.open('users?q=user-2');
      assert.equal(await page.locator('thead').first().isVisible(), false);
      await page.getByLabel('Sort by').selectOption('E-mail ↓');
      await page.waitForFunction(() => location.hash.includes('sort=-email'));
      await operator.settled();
      assert.match(await rows(page).first().textContent(), /user-2@/);
      await page.getByLabel('Select this page').check();
      await operator.sees('10 selected');
      assert.deepEqual(await operator.barriers(), []);
    },
    { phone: true },
  );

  as('exports all users that match as CSV, without formulas', async (operator, page) => {
    await operator.open('users?q=lists.example');
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export CSV' }).click();
    const text = await readFile(await (await download).path(), 'utf8');
    assert.ok(text.startsWith('\ufeff'), 'without the mark spreadsheets read another encoding');
    const lines = text.trim().split('\r\n');
    assert.equal(lines.length, USERS + 1);
    assert.match(lines[0], /^E-mail,Name,/);
    assert.ok(lines.some((line) => line.includes(",'=SUM(A1),")), 'a spreadsheet must not run a name');
    assert.ok(lines.some((line) => line.includes(',Åsa Öberg,')));
  });

  as('disables, enables and grants in bulk', async (operator, page) => {
    await operator.open('users?q=user-1');
    const list = page.locator('#main .panel').first();
    const select = async () => {
      await page.getByLabel('Select this page').check();
      await operator.sees('11 selected');
    };
    await select();
    assert.match(await operator.confirm(page.getByRole('button', { name: 'Disable' })), /^Disable 11 accounts\?/);
    await operator.isTold('Disable: 11 of 11 done.', list);
    assert.ok((await user('user-1')).every(({ disabled }) => disabled));
    await select();
    await page.getByRole('button', { name: 'Enable' }).click();
    await operator.isTold('Enable: 11 of 11 done.', list);
    await select();
    await page.getByLabel('Offer', { exact: true }).selectOption('premium');
    await operator.confirm(page.getByRole('button', { name: 'Grant' }));
    await operator.isTold('Grant: 11 of 11 done.', list);
    const [{ userId }] = await user('user-17');
    const [grant] = await appliance.operate('GET', `/admin/v1/users/${userId}/grants`);
    assert.deepEqual([grant.offerId, grant.state], ['premium', 'active']);
  });

  as('edits a user', async (operator, page) => {
    const { userId } = await signUp(demo, `${crypto.randomUUID()}@example.org`, 'Before');
    await operator.open(`users/${userId}`);
    const account = operator.panel('Account');
    await account.getByText('Edit').click();
    await account.getByLabel('Name').fill('After');
    await account.getByLabel('Country').fill('DE');
    await account.getByLabel(/^Tags/).fill('staff, beta');
    await account.getByRole('button', { name: 'Save' }).click();
    await operator.isTold('Saved.', account);
    const now = await appliance.operate('GET', `/admin/v1/users/${userId}`);
    assert.deepEqual([now.name, now.country, now.tags], ['After', 'DE', ['beta', 'staff']]);
  });

  as('shows the guide as a grid, in a zone, on a day, and finds a programme', async (operator, page) => {
    // At midnight the grid shows only the part on its day; an hour to one side is wide enough for the time.
    const start = (await serverTime(appliance)) - 3_600;
    const affairs = ['Current affairs', start, start + 7_200];
    await importGuide(appliance, 'news', [affairs]);
    await operator.open('schedule');
    const current = page.getByRole('link', { name: /^Current affairs/ });
    assert.match(await current.getAttribute('class'), /now/);
    await page.locator('.now-line').waitFor({ state: 'attached' });
    const clock = (zone) =>
      new Intl.DateTimeFormat('en-GB', { timeStyle: 'short', timeZone: zone }).format(start * 1000);
    assert.ok((await current.textContent()).includes(clock('Asia/Kolkata')));
    await page.locator('#choices').getByLabel('Time zone').selectOption('America/New_York');
    await operator.settled();
    assert.ok((await current.textContent()).includes(clock('America/New_York')));
    await operator.sees('Times in America/New_York');
    // The page says which day it shows, which may have begun a moment ago, or be one of 23 hours.
    const day = page.getByLabel('Day', { exact: true });
    const tomorrow = new Date(Date.parse(await day.inputValue()) + DAY_MS).toISOString().slice(0, 10);
    const noon = Date.parse(`${tomorrow}T16:00Z`) / 1000; // or an hour before it, by the season
    await importGuide(appliance, 'news', [affairs, ['Tomorrow’s talk', noon, noon + 3_600]]);
    await operator.follow(page.getByRole('link', { name: 'Next day' }));
    assert.equal(await day.inputValue(), tomorrow);
    await page.getByRole('link', { name: /^Tomorrow’s talk/ }).waitFor();
    await page.getByLabel('Programme title').fill('TALK');
    await page.getByRole('button', { name: 'Find programme' }).click();
    await operator.sees('Tomorrow’s talk', operator.panel('Found'));
    await page.getByRole('link', { name: 'Tomorrow’s talk' }).click();
    await operator.sees('Where the rights come from (later wins)', operator.panel('Rights'));
    await operator.sees('all ages', operator.panel('Programme'));
    assert.equal(await page.locator('#nav [aria-current]').textContent(), 'Schedule');
    // Another day has no present.
    await operator.open('schedule?day=2020-01-01');
    assert.equal(await page.locator('.now-line').count(), 0);
  });

  as('lists the programmes of a livestream by their titles, with an age only where one is set', async (operator, page) => {
    await operator.open('schedule/open');
    const titles = await page.locator('#main tbody td:last-child').allTextContents();
    assert.ok(titles.length > 10, `${titles.length} programmes`);
    for (const title of titles) assert.match(title, /^[A-Z][a-z]+ [A-Z][a-z]+( now)?$/);
  });

  as('draws what happened as charts with axes, and says when they were drawn', async (operator, page) => {
    await operator.open('overview');
    const activity = operator.panel('Activity');
    const titles = await activity.locator('figcaption strong').allTextContents();
    assert.deepEqual(titles, ['Streams', 'Requests by status', 'Refusals by code', 'Log-ins', 'Latency']);
    assert.match(await activity.locator('figcaption').last().textContent(), /ms · /);
    await operator.sees(/Updated \d\d:\d\d:\d\d .*, every 15 s/, activity);
    // A sample comes every 15 seconds; the panel redraws itself.
    const viewer = setInterval(() => fetch(new URL('/api/catalog/v1/livestream', demo.baseUrl)), 1_000);
    await activity.locator('figure > svg rect.bar').first().waitFor({ state: 'attached', timeout: 90_000 }).finally(() => clearInterval(viewer));
    const figure = activity.locator('figure').filter({ hasText: 'Requests by status' });
    const readout = await withoutRedraws(page, async () => {
      await figure.locator('svg').first().hover({ position: { x: 300, y: 50 } });
      return figure.locator('.readout').textContent();
    });
    assert.match(readout, /^\d\d:\d\d · .* per minute/);
  });

  as('says that figures are absent, and not that nothing happened, before the first sample', async (operator, page) => {
    await page.route('**/admin/v1/activity?*', (route) => route.fulfill({ json: { step: 15, samples: [] } }));
    await operator.open('overview?period=day');
    const activity = operator.panel('Activity');
    await operator.sees(/^The first sample comes/, activity);
    assert.deepEqual(await activity.locator('text.nothing').allTextContents(), Array(5).fill('no figures in this period'));
  });

  as(
    'names times by 24 hours below charts, also in a browser of the United States, so that they do not overlap',
    async (operator) => {
      await operator.open('overview');
      const ticks = operator.panel('Activity').locator('figure').first().locator('text.tick:not(.end)');
      const labels = await ticks.evaluateAll((all) =>
        all.map((one) => {
          const { left, right } = one.getBoundingClientRect();
          return { left, right, text: one.textContent };
        }),
      );
      assert.ok(labels.length >= 4, `${labels.length} labels`);
      for (const { text } of labels) assert.match(text, /^\d\d:\d\d$/);
      labels.slice(1).forEach(({ left, text }, i) => assert.ok(labels[i].right < left, `${text} overlaps ${labels[i].text}`));
    },
    { locale: 'en-US' },
  );

  test('an empty server shows its first steps, and which of them are done', { skip, timeout: 120_000 }, async () => {
    const server = await startEmpty();
    try {
      const operator = await openConsole(browser, server);
      await operator.logIn(server.operatorToken);
      await operator.settled();
      const steps = operator.panel('First steps').getByRole('listitem');
      const partner = steps.filter({ hasText: 'Add a partner' });
      await partner.getByText('open', { exact: true }).waitFor();
      assert.equal(await steps.count(), 6);
      assert.deepEqual(await operator.barriers(), []);
      await operator.follow(partner.getByRole('link'));
      assert.equal(await operator.page.locator('#main h1').textContent(), 'Partners, operators');
      await server.operate('POST', '/admin/v1/partners', { name: 'Acme' });
      await operator.open('overview');
      await partner.getByText('done', { exact: true }).waitFor();
      await steps.filter({ hasText: 'Import a catalogue' }).getByText('open', { exact: true }).waitFor();
      await operator.close();
    } finally {
      await server.stop();
    }
  });

  as('edits a livestream after showing the difference, and undoes it', async (operator, page) => {
    await operator.open('catalog?q=news');
    await page.getByRole('link', { name: 'News', exact: true }).or(page.getByRole('link', { name: 'news' })).first().click();
    const editor = page.locator('#main');
    await editor.getByLabel('Name', { exact: true }).fill('News 24');
    await editor.getByRole('button', { name: 'Preview' }).click();
    const changes = operator.panel('What changes');
    await operator.sees('News 24', changes.locator('ins'));
    const stored = async () => {
      const { livestream } = await appliance.operate('GET', '/admin/v1/catalog?format=json');
      return livestream.find(({ id }) => id === 'news').name;
    };
    const before = await stored();
    assert.notEqual(before, 'News 24', 'a preview changes nothing');
    await changes.getByRole('button', { name: 'Take these changes' }).click();
    await page.waitForURL(/#\/catalog\/livestreams$/);
    assert.equal(await stored(), 'News 24');
    await operator.open('catalog/history');
    await page.getByRole('button', { name: /^Compare/ }).first().click();
    await operator.sees('News 24', page.locator('.diff del'));
    const question = await operator.confirm(page.getByRole('button', { name: /^Restore/ }).first());
    assert.match(question, /0 entries are added, 1 changed, 0 removed\./);
    await operator.isTold(/^Restored version .* 1 changed/);
    assert.equal(await stored(), before);
  });

  as('imports a catalogue file only after its difference was seen, and says what is wrong with one', async (operator, page) => {
    await operator.open('catalog/import');
    const file = (text) => ({ name: 'catalog.toml', mimeType: 'application/toml', buffer: Buffer.from(text) });
    const input = page.getByLabel(/^Catalogue file/);
    await page.getByLabel('Mode').selectOption('merge');
    await input.setInputFiles(file('[[livestream]]\nid = "x"\nnmae = "X"\n'));
    await page.getByRole('button', { name: 'Preview' }).click();
    await operator.isRefused(/line 3: .*nmae/);
    await input.setInputFiles(file('[[livestream]]\nid = "fresh"\nname = "Fresh"\n'));
    await page.getByRole('button', { name: 'Preview' }).click();
    await operator.sees('1 added, 0 changed, 0 removed', operator.panel('What changes'));
    await page.getByRole('button', { name: 'Take these changes' }).click();
    await operator.isTold(/^The catalogue was imported/);
    const { livestream } = await appliance.operate('GET', '/admin/v1/catalog?format=json');
    assert.ok(livestream.some(({ id }) => id === 'fresh'));
  });

  as('adds and removes a rule', async (operator, page) => {
    await operator.open('catalog/rules');
    await page.getByText('As JSON').click();
    await page.getByLabel(/^Rule \(JSON/).fill('{"livestream": "news", "title": "Secret*", "live": false}');
    await page.getByRole('button', { name: 'Preview' }).last().click();
    await page.getByRole('button', { name: 'Add rule' }).click();
    await operator.sees(/Secret\*/, page.locator('tbody'));
    const { number } = (await appliance.operate('GET', '/admin/v1/rules')).at(-1);
    await operator.confirm(page.getByRole('button', { name: `Remove rule ${number}` }));
    await operator.isTold(`Removed rule ${number}.`);
  });

  as('shows why an import is held, and maps a channel of the guide', async (operator, page) => {
    await operator.open('guides/main');
    const main = page.locator('#main');
    guides.programmes = 40;
    await main.getByRole('button', { name: 'Import now' }).click();
    await operator.isRefused(/IMPORT_HELD 409.*none of the guide's channels/, main);
    // The livestream with the name of the channel is proposed.
    const same = { livestream: [{ id: 'same-name', name: 'GUIDED' }] };
    await appliance.operate('POST', '/admin/v1/catalog/import?merge=true', same);
    await main.getByText(/^Map channels/).click();
    assert.equal(await main.getByRole('button', { name: 'Save as a file' }).isEnabled(), false);
    await main.getByRole('button', { name: 'Show the line for playgate.toml' }).click();
    await operator.sees('channels = { "guided" = "same-name" }', main);
    assert.equal(await main.getByRole('button', { name: 'Save as a file' }).isEnabled(), true);
    // A line of the new channels alone would drop those that the configuration has.
    const address = '**/admin/v1/epg/sources/main';
    await page.route(address, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), mapped: 1, channels: { 'old.tv': 'open' } } });
    });
    await operator.open('overview');
    await operator.open('guides/main');
    await main.getByText(/^Map channels/).click();
    await main.getByRole('button', { name: 'Show the line for playgate.toml' }).click();
    await operator.sees('channels = { "old.tv" = "open", "guided" = "same-name" }', main);
    await page.unroute(address);
    await main.getByLabel('Name').fill('Guided');
    await main.getByRole('button', { name: 'Create livestream' }).click();
    await operator.isTold(/^Created the livestream guided/, main);
    await main.getByRole('button', { name: 'Import now' }).click();
    await operator.isTold(/^Imported: 40 added/, main);
    guides.programmes = 4;
    await main.getByRole('button', { name: 'Import now' }).click();
    await operator.isRefused(/IMPORT_HELD/, main);
    await main.getByRole('button', { name: 'Show why it is held' }).click();
    await operator.isTold(/^Dry run:/, main);
    await operator.sees('Why it is held:', main);
    await operator.sees(/the guide ends on/, main.locator('.outcome'));
    await operator.confirm(main.getByRole('button', { name: 'Accept' }));
    await operator.isTold(/^Accepted:/, main);
  });

  as('finds a programme among more livestreams than one request may name', async (operator) => {
    const livestream = Array.from({ length: 205 }, (_, i) => ({ id: `many-${i}`, name: `Many ${i}` }));
    await appliance.operate('POST', '/admin/v1/catalog/import?merge', { livestream });
    const now = await serverTime(appliance);
    await importGuide(appliance, 'many-204', [['Needle in a haystack', now - 60, now + 600]]);
    await operator.open('schedule?find=needle');
    await operator.sees('Needle in a haystack', operator.panel('Found'));
    await operator.sees(/^1 programme on/, operator.panel('Found'));
  });

  as('shows which platform fails to start on which channel, since when, and the requests of a failed view', async (operator, page) => {
    const failing = await signUp(demo, `${crypto.randomUUID()}@example.org`, 'Fay');
    await play(demo, failing, 'open');
    const now = await serverTime(appliance);
    const context = { asset_id: 'open', device_id: 'telly', error_code: 3016 };
    await report(demo, failing, [{ timestamp: now, action: 'playback_failed', seqId: 1, context }]);
    // The figures follow the events by some tenths of a second, and by more on a busy machine. The page is drawn once.
    const counted = async () => {
      const { rows } = await appliance.operate('GET', '/admin/v1/telemetry/report?by=platform&last=1h');
      return rows.some(({ key, startFailures }) => key.platform === 'linux' && startFailures > 0);
    };
    for (let tries = 0; tries < 300 && !(await counted()); tries += 1) await new Promise((done) => setTimeout(done, 100));
    await operator.open('quality?hours=1&before=1');
    const main = page.locator('#main');
    await operator.follow(main.getByRole('link', { name: 'linux', exact: true }));
    await main.getByRole('link', { name: 'Remove Platform' }).waitFor();
    await operator.follow(main.getByRole('link', { name: 'open', exact: true }));
    await operator.sees('3016', main);
    // The chart shows since when: both days, in a zone that it names, with the numbers for those who do not see it.
    const chart = main.getByRole('figure').filter({ hasText: 'Start failures' });
    assert.match(await chart.textContent(), /^Start failures % · GMT\+5:30.*of attempts, day before/);
    await chart.getByText('Numbers').click();
    const time = chart.getByRole('button').filter({ has: page.locator('time') }).first();
    await operator.follow(time);
    await page.waitForFunction(() => location.hash.includes('to='));
    await main.getByLabel('Outcome', { exact: true }).selectOption('start_failed');
    await page.waitForFunction(() => /where=.*&where=.*outcome=start_failed/.test(location.hash));
    await operator.settled();
    const link = operator.panel('Single views').getByRole('link', { name: 'Requests' }).first();
    assert.match(await link.getAttribute('href'), new RegExp(`^#/requests\\?user=${failing.userId}&asset=open&time=\\d{4}-`));
  });

  as('stays on the page to which the operator went before an answer came', async (operator, page) => {
    let answer;
    const left = new Promise((done) => (answer = done));
    await page.route('**/admin/v1/users/user-7*', async (route) => {
      await left;
      await route.fallback();
    });
    const address = () => page.evaluate(() => location.hash);
    await operator.open('requests');
    await page.getByLabel('User', { exact: true }).fill('user-7@lists.example');
    await page.getByRole('button', { name: 'Find requests' }).click();
    await operator.open('store');
    const answered = page.waitForResponse('**/admin/v1/users/user-7*');
    answer();
    await (await answered).finished();
    await page.evaluate(() => new Promise((done) => setTimeout(done, 100)));
    assert.equal(await address(), '#/store');
    // A list searches when nothing was typed for a quarter of a second.
    await operator.open('users');
    await page.getByLabel('Part of e-mail, name or id').evaluate((input) => {
      input.value = 'öBERG';
      input.dispatchEvent(new Event('input'));
      location.hash = '#/store';
      return new Promise((done) => setTimeout(done, 500));
    });
    assert.equal(await address(), '#/store');
  });

  for (const [locale, label, button] of [
    ['sv-SE', 'Operatörstoken', 'Logga in'],
    ['de-DE', 'Operator-Token', 'Anmelden'],
  ]) {
    test(`asks for the token in the language of the browser: ${locale}`, { skip, timeout: 60_000 }, async () => {
      const operator = await openConsole(browser, demo, { locale });
      await operator.page.getByLabel(label, { exact: true }).waitFor();
      await operator.page.getByRole('button', { name: button, exact: true }).waitFor();
      await operator.close();
    });
  }

  as('asks before a restore', async (operator, page) => {
    await operator.open('store');
    await page.getByRole('button', { name: 'Create backup' }).click();
    await operator.isTold(/^Created and verified /);
    const restore = page.getByRole('button', { name: /^Restore / }).first();
    // The demo would restart on another port: what the browser sends ends here.
    const sent = [];
    await page.route('**/restore*', (route) => {
      sent.push(route.request().method());
      return route.fulfill({ status: 200, json: {} });
    });
    await restore.click();
    await page.keyboard.press('Escape');
    assert.deepEqual(sent, []);
    assert.match(await operator.confirm(restore), /^Replace all data with the backup /);
    await operator.isTold(/The service is ready\.$/);
    assert.deepEqual(sent, ['POST']);
  });

  as('speaks Swedish and German', async (operator, page) => {
    const heading = page.locator('#main h1');
    for (const [language, text] of [
      ['sv', 'Översikt'],
      ['de', 'Übersicht'],
    ]) {
      await page.locator('#choices select').first().selectOption(language);
      await heading.filter({ hasText: text }).waitFor();
      assert.equal(await page.evaluate(() => document.documentElement.lang), language);
    }
  });

  as(
    'lets an observer read everything and change nothing',
    async (operator, page) => {
      for (const path of ['users', 'catalog', 'catalog/livestream/news', 'catalog/rules', 'guides', 'store']) {
        await operator.open(path);
        const verbs = await page.locator('#main button').allTextContents();
        const changing = /^(Disable|Grant|Take|Remove|Restore|Create |Import now|Add|Accept)/;
        assert.deepEqual(verbs.filter((verb) => changing.test(verb)), [], path);
        assert.equal(await page.locator('#main td.box').count(), 0, path);
      }
    },
    { token: async () => (await appliance.operate('POST', '/admin/v1/operators', { name: 'Olle', role: 'observer' })).token },
  );
});

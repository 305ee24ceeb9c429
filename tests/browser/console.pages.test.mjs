// What the console's pages tell: names for ids, sentences for operations, forms for JSON, and keys.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { openConsole } from './lib/console.mjs';
import { importGuide, serverTime, startGuides } from './lib/guide.mjs';
import { call, play, signUp } from './lib/partner.mjs';

describe('the pages of the console', () => {
  let appliance, browser, demo, guides, now, viewer;

  before(async () => {
    if (skip) return;
    guides = await startGuides();
    const source = (name, url) => `[[epg.sources]]\nname = "${name}"\nurl = "${url}"\ninterval = 86400\n`;
    appliance = await startAppliance({}, source('working', guides.address) + source('broken', 'http://127.0.0.1:9/none'));
    demo = appliance.demo;
    browser = await launch();
    now = await serverTime(appliance);
    await importGuide(appliance, 'open', [['Match of the day', now - 600, now + 6_000]]);
    viewer = await signUp(demo, `${crypto.randomUUID()}@example.org`, 'Vera');
    await play(demo, viewer, 'open').then((beat) => beat());
  });

  after(async () => {
    await browser?.close();
    await appliance?.stop();
    await guides?.stop();
  });

  function as(name, steps, how) {
    test(name, { skip, timeout: 120_000 }, async () => {
      const operator = await openConsole(browser, demo, how);
      await operator.logIn(demo.operatorToken);
      await operator.settled();
      await steps(operator, operator.page);
      await operator.close();
    });
  }

  as('names who watches a programme, on which channel', async (operator, page) => {
    await operator.open('sessions?q=match');
    const row = page.locator('#main tbody tr').first();
    assert.match(await row.textContent(), /@example\.org.*Open Channel.*Match of the day/);
    // The ids are on hover.
    await row.getByTitle(/^open /).waitFor();
    await operator.open(`users/${viewer.userId}`);
    assert.equal(await page.locator('#main h1').textContent(), viewer.email);
    await operator.sees('plays Match of the day', operator.panel('Devices'));
    await operator.sees('Match of the day', operator.panel('Playback sessions'));
    assert.deepEqual(await operator.barriers(), []);
  });

  as('asks the server for refused requests, of a route and a partner', async (operator, page) => {
    await call(demo, 'POST', `/api/entitlement/v2/asset/${demo.vod.premium}`, viewer.bearer).catch(() => {});
    const asked = [];
    page.on('request', (request) => request.url().includes('/admin/v1/requests?') && asked.push(new URL(request.url()).searchParams));
    await operator.open('requests');
    const choose = async (label, value) => {
      await page.locator('#main').getByLabel(label, { exact: true }).selectOption(value);
      await operator.settled();
    };
    await choose('Result', 'refused');
    await choose('Request', 'entitlement');
    await choose('Partner', 'demo');
    const last = asked.at(-1);
    assert.deepEqual([last.get('status'), last.get('route'), last.get('partner')], ['refused', 'entitlement', 'demo']);
    await operator.sees(/403 NOT_ENTITLED/);
    // The form keeps what is chosen, and the address has all of it.
    await page.getByLabel('Error code').fill('NOT_ENTITLED');
    await page.getByRole('button', { name: 'Find requests' }).click();
    await page.waitForURL(/code=NOT_ENTITLED.*status=refused.*route=entitlement/);
    await operator.settled();
    await operator.follow(page.locator('#main tbody a').first());
    assert.match(await page.locator('#main h1').textContent(), /^Entitlement: The Test Card/);
  });

  as('tells in sentences what operators did', async (operator, page) => {
    await appliance.operate('PUT', `/admin/v1/users/${viewer.userId}/grants/premium`, {});
    await operator.open('audit');
    const entry = page.locator('#main tbody tr').filter({ hasText: 'granted premium to' }).first();
    assert.match(await entry.textContent(), new RegExp(`granted premium to ${viewer.email} \\(demo\\)`));
    await operator.follow(entry.getByRole('link', { name: viewer.email }));
    assert.equal(await page.locator('#main h1').textContent(), viewer.email);
  });

  as('says once that something does not exist', async (operator, page) => {
    for (const [path, words] of [
      [`users/${'A'.repeat(22)}`, 'There is no such user.'],
      ['broadcast/nothing', 'The schedule has no such broadcast.'],
      ['schedule/nothing', 'The catalogue has no livestream “nothing”.'],
      ['catalog/offer/nothing', 'The catalogue has no entry “nothing”.'],
      ['guides/nothing', 'No EPG source has this name.'],
      ['requests/nothing', /The journal has no request/],
    ]) {
      await operator.open(path);
      await operator.isRefused(words);
      assert.equal(await page.locator('#main [role=alert]').count(), 1, path);
      assert.deepEqual(await operator.barriers(), [], path);
    }
  });

  as('lists EPG sources with the troubled ones first, and each has a page', async (operator, page) => {
    await appliance.operate('POST', '/admin/v1/epg/sources/broken/refresh').catch(() => {});
    await operator.open('guides');
    const names = await page.locator('#main tbody tr td a').allTextContents();
    assert.deepEqual(names.slice(0, 2), ['broken', 'working']);
    const row = page.locator('#main tbody tr').first();
    assert.match(await row.textContent(), /failing.*cannot connect/);
    // A click anywhere in a row opens its page.
    await operator.follow(row.getByText('failing'));
    assert.equal(await page.locator('#main h1').textContent(), 'broken');
    await operator.open('overview');
    await operator.follow(page.getByRole('link', { name: 'Fix it: EPG sources' }).first());
    await page.waitForURL(/#\/guides\//);
  });

  as('does not call a held import a success', async (operator, page) => {
    guides.programmes = 40;
    await operator.open('guides/working');
    await page.getByRole('button', { name: 'Import now' }).click();
    await operator.isRefused(/IMPORT_HELD/);
    const taken = page.locator('#main .facts > div').filter({ hasText: 'Last taken' });
    await operator.sees('held for approval');
    assert.equal(await taken.textContent(), 'Last taken–');
  });

  as('makes a rule of fields, after showing what it hits', async (operator, page) => {
    await operator.open('catalog/rules');
    const rules = async () => (await appliance.operate('GET', '/admin/v1/rules')).length;
    const before = await rules();
    await page.getByRole('checkbox', { name: 'Open Channel' }).check();
    await page.getByLabel(/^Title/).fill('Match*');
    await page.getByLabel('Live', { exact: true }).selectOption('false');
    await page.getByRole('button', { name: 'Preview' }).first().click();
    await operator.sees(/^1 broadcasts on 1 channels/);
    await operator.sees('Match of the day');
    assert.equal(await rules(), before, 'a preview changes nothing');
    await page.getByRole('button', { name: 'Add rule' }).click();
    await operator.isTold('Added the rule.');
    const { rule, number } = (await appliance.operate('GET', '/admin/v1/rules')).at(-1);
    assert.deepEqual(rule, { livestream: 'open', title: 'Match*', live: false });
    await operator.sees('Open Channel · title Match*');
    // It is edited with the same fields.
    await page.getByRole('button', { name: `Edit rule ${number}` }).click();
    const editor = operator.panel(`Rule ${number}`);
    assert.equal(await editor.getByLabel(/^Title/).inputValue(), 'Match*');
    assert.deepEqual(await operator.barriers(), []);
    await operator.confirm(page.getByRole('button', { name: `Remove rule ${number}` }));
  });

  as('edits playlists, pictures and rights of a livestream, and contents of an offer, by fields', async (operator, page) => {
    await operator.open('catalog/livestream/open');
    assert.equal(await page.locator('#main h1').textContent(), 'Open Channel');
    await page.getByRole('button', { name: 'Add playlist' }).click();
    const playlist = page.getByRole('group', { name: 'Playlists' });
    await playlist.getByLabel('Protocol').last().selectOption('hls');
    await playlist.getByLabel('Address').last().fill('https://cdn.example/open.m3u8');
    await page.getByRole('button', { name: 'Add picture' }).click();
    const pictures = page.getByRole('group', { name: 'Pictures' });
    await pictures.getByLabel('Address').fill('https://img.example/open.png');
    await pictures.getByLabel('Shape').selectOption('square');
    await page.getByLabel('Fast forward').selectOption('false');
    assert.deepEqual(await operator.barriers(), []);
    await page.getByRole('button', { name: 'Preview' }).click();
    await page.getByRole('button', { name: 'Take these changes' }).click();
    await page.waitForURL(/#\/catalog\/livestreams$/);
    const { livestream } = await appliance.operate('GET', '/admin/v1/catalog?format=json');
    const { playlist: stored, images, extended_rights: rights } = livestream.find(({ id }) => id === 'open');
    assert.deepEqual(stored, { dash: 'loop:demo/encrypted/manifest.mpd', hls: 'https://cdn.example/open.m3u8' });
    assert.deepEqual([images[0].filename, images[0].type], ['https://img.example/open.png', 'square']);
    assert.deepEqual(rights, { pause: true, rewind: true, fastForward: false });
    await operator.open('catalog/offer/premium');
    await page.getByRole('checkbox', { name: 'The Test Card', exact: true }).check();
    await page.getByRole('button', { name: 'Preview' }).click();
    await operator.sees(/film-open/, page.locator('.diff ins'));
  });

  as('shows the logos of channels and the picture of a broadcast, which it loads through the server', async (operator, page) => {
    const livestream = [{ id: 'pictured', name: 'Pictured', images: [{ filename: 'https://img.example/logo.png' }] }];
    await appliance.operate('POST', '/admin/v1/catalog/import?merge', { livestream });
    await importGuide(appliance, 'pictured', [['With a picture', now - 600, now + 600]]);
    const pixel = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
    const asked = [];
    await page.route('**/admin/v1/pictures/*', (route) => {
      asked.push(route.request().url().split('/').at(-1));
      return route.fulfill({ contentType: 'image/png', body: pixel });
    });
    await operator.open('schedule?channel=pictured');
    await page.locator('.channel img.logo').waitFor();
    await operator.open(`broadcast/pictured-${now - 600}-0`);
    await page.locator('img.still').waitFor();
    // Each is asked for once.
    assert.deepEqual(asked.toSorted(), [`pictured-${now - 600}-0`, 'pictured'].toSorted());
    await page.unroute('**/admin/v1/pictures/*');
    // Without a picture, the initials stay.
    await operator.open('schedule/cinema');
    assert.equal(await page.locator('#main svg.logo text').textContent(), 'CI');
  });

  as('is used with keys', async (operator, page) => {
    await page.keyboard.press('g');
    await page.keyboard.press('u');
    await page.waitForURL(/#\/users$/);
    await operator.settled();
    await page.keyboard.press('/');
    const search = page.getByLabel('Part of e-mail, name or id');
    assert.equal(await search.evaluate((one) => one === document.activeElement), true);
    // What is typed is text.
    await page.keyboard.type('g?');
    assert.equal(await search.inputValue(), 'g?');
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard' }).waitFor();
    assert.deepEqual(await operator.barriers(), []);
    await page.keyboard.press('Escape');
    await page.keyboard.press('g');
    await page.keyboard.press('s');
    await page.waitForURL(/#\/schedule$/);
  });

  as('zooms all charts to the period that is dragged over one, and leaves out what is not over', async (operator, page) => {
    const at = Math.floor(now / 15) * 15;
    const sample = (i) => ({ at: at - 15 * i, streams: 3, requests: { '2xx': 30 }, refusals: {}, logins: 1, refusedLogins: 0 });
    const samples = Array.from({ length: 200 }, (_, i) => sample(199 - i));
    // The next one has just begun.
    samples.push({ ...sample(0), at: at + 3_600, streams: 0, requests: {} });
    await page.route('**/admin/v1/activity?*', (route) => route.fulfill({ json: { step: 15, samples } }));
    await operator.open('overview?period=hour');
    const activity = operator.panel('Activity');
    const streams = activity.locator('figure').first();
    assert.match(await streams.locator('.readout').textContent(), /^now 3/);
    const picture = streams.locator('svg').first();
    await picture.scrollIntoViewIfNeeded();
    const box = await picture.boundingBox();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await activity.getByRole('button', { name: 'Show all' }).waitFor();
    await operator.settled();
    const rows = await streams.locator('tbody tr').count();
    assert.ok(rows > 0);
    await activity.getByRole('button', { name: 'Show all' }).click();
    await activity.getByRole('button', { name: 'Show all' }).waitFor({ state: 'detached' });
  });
});

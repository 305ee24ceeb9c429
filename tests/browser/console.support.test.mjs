// The tasks of support, as docs/support.md lists them, at the console. Those that other tests do are not repeated: a refusal of
// the past, a stuck EPG source, its mapping, and a restore.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { openConsole } from './lib/console.mjs';
import { importGuide, serverTime } from './lib/guide.mjs';
import { call, play, signUp } from './lib/partner.mjs';

describe('support at the console', () => {
  let appliance, browser, demo, viewer;

  before(async () => {
    if (skip) return;
    appliance = await startAppliance({ PLAYGATE_PLAYBACK_DEVICES: '2' });
    demo = appliance.demo;
    browser = await launch();
    viewer = await signUp(demo, `${crypto.randomUUID()}@example.org`, 'Vera');
  });

  after(async () => {
    await browser?.close();
    await appliance?.stop();
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

  as('says how many devices of how many a user has, and that they are full', async (operator, page) => {
    await play(demo, viewer, 'open', { 'Service-Play-DeviceId': 'first' });
    await operator.open(`users/${viewer.userId}`);
    const devices = operator.panel('Devices');
    await operator.sees('1 of 2', devices);
    assert.equal(await devices.getByText('A new device is refused').count(), 0);
    await play(demo, viewer, 'open', { 'Service-Play-DeviceId': 'second' });
    await assert.rejects(play(demo, viewer, 'open', { 'Service-Play-DeviceId': 'third' }), /DEVICE_LIMIT_REACHED/);
    await page.reload();
    await operator.settled();
    await operator.sees('2 of 2', devices);
    await operator.sees('A new device is refused until one is removed.', devices);
    assert.deepEqual(await operator.barriers(), []);
    await operator.confirm(devices.getByRole('button', { name: 'Remove second' }));
    await operator.sees('1 of 2', devices);
    await appliance.operate('PUT', `/admin/v1/users/${viewer.userId}`, { tags: ['no-device-limit'] });
    await page.reload();
    await operator.settled();
    await operator.sees('1 devices; a tag of the user lifts the limit', devices);
  });

  as('shows who watches a channel, and nobody who watches another', async (operator, page) => {
    const other = await signUp(demo, `${crypto.randomUUID()}@example.org`, 'Otto');
    await play(demo, other, demo.vod.open);
    await play(demo, viewer, 'open').then((beat) => beat());
    await operator.open('schedule/open');
    await operator.follow(page.getByRole('link', { name: 'Who watches' }));
    assert.equal(await page.locator('#main h1').textContent(), 'Who watches Open Channel');
    await operator.sees(viewer.email);
    assert.equal(await page.getByText(other.email).count(), 0);
    // A search keeps to the channel.
    await page.getByLabel('Search', { exact: true }).fill('otto');
    await operator.sees('Nothing matches.');
    assert.match(page.url(), /asset=open/);
  });

  as('takes the evening of a channel off the air, and back', async (operator, page) => {
    // A day that the guide of the demo does not reach at any hour.
    const day = new Date(((await serverTime(appliance)) + 4 * 86_400) * 1000).toISOString().slice(0, 10);
    const start = Date.parse(`${day}T12:30Z`) / 1000; // 18:00 in India, where the operator sits
    await importGuide(appliance, 'open', [['Evening news', start, start + 3_600]]);
    await operator.open('catalog/rules');
    await page.getByRole('checkbox', { name: 'Open Channel' }).check();
    await page.getByLabel('Live', { exact: true }).selectOption('false');
    const period = page.getByRole('group', { name: 'Only in one period' });
    await page.getByLabel('Every day from').fill('18:00');
    await period.getByLabel(/^From/).fill(`${day}T18:00`);
    await period.getByLabel('Until').fill(`${day}T23:00`);
    const preview = page.getByRole('button', { name: 'Preview' }).first();
    await preview.click();
    await operator.isRefused(/^Give hours of every day, or one period/);
    await page.getByLabel('Every day from').fill('');
    await preview.click();
    await operator.sees(/^1 broadcasts on 1 channels/);
    await page.getByRole('button', { name: 'Add rule' }).click();
    await operator.isTold('Added the rule.');
    const { rule, number } = (await appliance.operate('GET', '/admin/v1/rules')).at(-1);
    assert.deepEqual(rule, { livestream: 'open', window: { from: `${day}T12:30:00Z`, to: `${day}T17:30:00Z` }, live: false });
    await operator.sees(/Open Channel · .*18:00.* – .*23:00/);
    // The form of a rule has the period that it had, so that another change keeps it.
    await page.getByRole('button', { name: `Edit rule ${number}` }).click();
    const editor = operator.panel(`Rule ${number}`);
    assert.equal(await editor.getByLabel('Until', { exact: true }).inputValue(), `${day}T23:00`);
    await operator.confirm(page.getByRole('button', { name: `Remove rule ${number}` }));
    await operator.isTold(`Removed rule ${number}.`);
    assert.deepEqual(await operator.barriers(), []);
  });

  as('adds a film, puts it into an offer, grants that, and withdraws it', async (operator, page) => {
    const take = async (next) => {
      await page.getByRole('button', { name: 'Preview' }).click();
      await page.getByRole('button', { name: 'Take these changes' }).click();
      await page.waitForURL(next);
    };
    await operator.open('catalog/assets');
    await page.getByRole('link', { name: 'Add video' }).or(page.getByRole('button', { name: 'Add video' })).click();
    await page.getByLabel('Id', { exact: true }).fill('film-new');
    await page.getByLabel('Title', { exact: true }).fill('A New Film');
    await page.getByLabel('Encrypted').uncheck();
    await page.getByRole('group', { name: 'Playlists' }).getByLabel('Address').fill('origin:demo/clear/manifest.mpd');
    await take(/#\/catalog\/assets$/);
    await operator.open('catalog/offer/premium');
    await page.getByRole('checkbox', { name: 'A New Film' }).check();
    await take(/#\/catalog\/offers$/);
    const entitled = () => call(demo, 'POST', '/api/entitlement/v2/asset/film-new', viewer.bearer);
    await assert.rejects(entitled(), /NOT_ENTITLED/);
    await operator.open(`users/${viewer.userId}`);
    const offers = operator.panel('Offers');
    await offers.getByLabel('Offer', { exact: true }).selectOption('premium');
    await offers.getByRole('button', { name: 'Grant' }).click();
    await operator.isTold('Granted “premium”.', offers);
    await entitled();
    await operator.confirm(offers.getByRole('button', { name: 'Revoke premium' }));
    await operator.isTold('Revoked “premium”.', offers);
    await assert.rejects(entitled(), /NOT_ENTITLED/);
    // The check has the name of what was asked about.
    await operator.open(`why/${viewer.userId}/film-new`);
    await page.getByRole('heading', { name: `May ${viewer.email} play A New Film?` }).waitFor();
  });

  as('rotates the token of a partner: both work until the old one is removed', async (operator, page) => {
    const { partnerId, accessToken } = await appliance.operate('POST', '/admin/v1/partners', { name: 'Rotated' });
    const [{ tokenId: old }] = await appliance.operate('GET', `/admin/v1/partners/${partnerId}/tokens`);
    await operator.open('access');
    const row = page.locator('tr', { hasText: 'Rotated' });
    await row.locator('summary').click();
    await row.getByText('never').waitFor();
    await row.getByRole('button', { name: 'Create token' }).click();
    const fresh = (await page.locator('.secret code').textContent()).trim();
    const works = (token) => fetch(new URL('/api/catalog/v1/livestreams', demo.baseUrl), { headers: { 'Service-AccessToken': token } });
    assert.equal((await works(fresh)).status, 200);
    assert.equal((await works(accessToken)).status, 200);
    // The time of the last use says when the old one may go.
    await operator.confirm(row.getByRole('button', { name: `Revoke ${old}` }));
    await operator.isTold(`Revoked the token ${old}.`);
    assert.deepEqual([(await works(accessToken)).status, (await works(fresh)).status], [401, 200]);
  });

  as('shows a mail as its reader sees it, which runs, loads and sends nothing', async (operator, page) => {
    await appliance.operate('POST', `/admin/v1/users/${viewer.userId}/reset-mail`);
    const [{ id }] = await appliance.operate('GET', '/admin/v1/mail');
    const mail = page.frameLocator('iframe.letter');
    await operator.open(`mail/${id}`);
    await mail.getByRole('link', { name: 'Choose a new password' }).waitFor();
    // With its own styles.
    const ground = () => mail.locator('.card').evaluate((one) => getComputedStyle(one).backgroundColor);
    assert.equal(await ground(), 'rgb(255, 255, 255)');
    assert.deepEqual(await operator.barriers(), []);
    const elsewhere = 'https://elsewhere.example/';
    const html = `<meta http-equiv="refresh" content="0;url=${elsewhere}"><link rel="stylesheet" href="${elsewhere}a.css">
      <style>@import "${elsewhere}b.css"; p { background: url(${elsewhere}c.png) }</style><p>Hostile</p>
      <script>parent.document.title = 'ran'</script><img src="${elsewhere}d.png" onerror="parent.document.title = 'ran'">
      <form action="${elsewhere}"><button>Send</button></form><a href="${elsewhere}">Go</a><iframe src="${elsewhere}"></iframe>`;
    const asked = [];
    // What the policy stops never gets here.
    await page.route(`${elsewhere}**`, (route) => {
      asked.push(route.request().url());
      return route.fulfill({ body: '' });
    });
    await page.route(`**/admin/v1/mail/${id}`, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), html } });
    });
    await page.reload();
    await operator.settled();
    await mail.getByText('Hostile').waitFor();
    await mail.getByRole('button', { name: 'Send' }).click();
    await mail.getByRole('link', { name: 'Go' }).click();
    assert.match(await page.title(), /Playgate/);
    assert.deepEqual(asked, []);
    // What the frame was refused.
    await operator.complains();
  });
});

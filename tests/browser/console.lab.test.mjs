// The console's Lab page: clocks, faults, scenario and reset of a lab partner.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { openConsole } from './lib/console.mjs';
import { call, signUp } from './lib/partner.mjs';

describe('the lab page of the console', () => {
  let appliance, browser, demo;

  before(async () => {
    if (skip) return;
    appliance = await startAppliance();
    demo = appliance.demo;
    browser = await launch();
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

  const live = (headers = {}) =>
    fetch(new URL('/api/catalog/v1/livestreams', demo.baseUrl), {
      headers: { 'Service-AccessToken': demo.partnerToken, ...headers },
    });

  as('adds a fault, shows how often it was applied, and removes it', async (operator, page) => {
    await operator.open('lab');
    await operator.follow(page.getByRole('link', { name: 'demo', exact: true }));
    const faults = operator.panel('Faults');
    await faults.getByText('No faults.').waitFor();
    await faults.getByLabel('Route').fill('livestreams');
    await faults.getByLabel('Action').selectOption('status');
    assert.equal(await faults.getByLabel('Code or value').inputValue(), '503');
    await faults.getByLabel('Apply how often').fill('1');
    await faults.getByRole('button', { name: 'Add fault' }).click();
    await operator.isTold('Added the fault f', faults);
    assert.deepEqual([(await live()).status, (await live()).status], [503, 200]);
    await faults.getByText('1 of 2').waitFor(); // redrawn by itself

    // The server says what is wrong with a fault.
    await faults.getByLabel('Route').fill('heartbeets');
    await faults.getByRole('button', { name: 'Add fault' }).click();
    await operator.isRefused('must be any, license or one of', faults);
    await faults.getByRole('button', { name: /^Remove f\d+$/ }).click();
    await operator.isTold('Removed the fault f', faults);
    await faults.getByText('No faults.').waitFor();
    assert.deepEqual(await operator.barriers(), []);
  });

  as('suggests routes and values of a fault that the server takes', async (operator, page) => {
    await operator.open('lab/demo');
    const faults = operator.panel('Faults');
    const suggested = (id) => page.locator(`#${id} option`).evaluateAll((all) => all.map(({ value }) => value));
    const routes = await suggested('fault-routes');
    const actions = await faults.getByLabel('Action').locator('option').evaluateAll((all) => all.map(({ value }) => value));
    assert.ok(routes.length > 5 && actions.length > 5);
    const ways = routes.map((route) => ({ route, do: { delay: '1s' } }));
    for (const action of actions) {
      await faults.getByLabel('Action').selectOption(action);
      const values = await suggested('fault-values');
      assert.ok(values.length > 1, action);
      const sent = (value) => (action === 'status' ? Number(value) : value);
      const route = ['license', 'playlist'].includes(action) ? await faults.getByLabel('Route').inputValue() : 'any';
      ways.push(...values.map((value) => ({ route, do: { [action]: sent(value) } })));
    }
    const path = '/admin/v1/partners/demo/faults';
    for (const way of ways) await appliance.operate('POST', path, way);
    await assert.rejects(appliance.operate('POST', path, { route: 'any', do: { refuse: 'NO_SUCH_CODE' } }), /400/);
    await appliance.operate('DELETE', path);
  });

  as('moves the clock of the server and of a partner, and returns both', async (operator) => {
    await operator.open('lab');
    const server = operator.panel('Clock of the server');
    await server.getByLabel('Move by').selectOption({ label: '+7 d' });
    await server.getByRole('button', { name: 'Move' }).click();
    await operator.isTold('Moved the clock; the jobs that were due have run.', server);
    await server.getByText('+7 d').first().waitFor();
    const ahead = async () => Date.parse((await live()).headers.get('Date')) / 1000 - Date.now() / 1000;
    assert.ok(Math.abs((await ahead()) - 7 * 86_400) < 60, `${await ahead()} s ahead`);
    await server.getByRole('button', { name: 'Stop the clock' }).click();
    await server.getByText('stopped').waitFor();
    await server.getByRole('button', { name: 'Return to real time' }).click();
    await server.getByText('real time', { exact: true }).waitFor();
    assert.ok(Math.abs(await ahead()) < 60);

    await operator.open('lab/demo');
    const partner = operator.panel('Clock');
    await partner.getByLabel('Move by').selectOption({ label: '+1 h' });
    await partner.getByRole('button', { name: 'Move' }).click();
    await operator.isTold('Moved the clock of demo.', partner);
    assert.ok(Math.abs((await ahead()) - 3_600) < 60, `${await ahead()} s ahead`);
    await partner.getByRole('button', { name: 'Return to the clock of the server' }).click();
    await partner.getByText('none').waitFor();
    assert.ok(Math.abs(await ahead()) < 60);
  });

  as('shows a scenario step by step, and resets the partner', async (operator) => {
    await operator.open('lab/demo');
    const scenario = operator.panel('Scenario');
    await operator.sees('No scenario was run.', scenario);
    const run = appliance.command('lab', 'run', 'asset-gone', '--partner', 'demo', '--wait', '--json');
    await run.said('waiting for the first request');
    await operator.sees('running', scenario);
    await operator.sees('on entitlement 404: wait waiting', scenario);
    const { identity, accessKey, vod } = demo;
    const ask = (path, body, token) =>
      fetch(new URL(path, demo.baseUrl), {
        method: 'POST',
        headers: { 'Service-AccessToken': demo.partnerToken, ...(token && { Authorization: `Bearer ${token}` }) },
        body: JSON.stringify(body),
      });
    const { token } = await (await ask('/api/login/v2/auth/email', { identity, accessKey })).json();
    assert.equal((await ask(`/api/entitlement/v2/asset/${vod.open}`, {}, token)).status, 404);
    assert.equal((await run.ended).code, 0);
    await operator.sees('passed', scenario);

    const reset = operator.panel('Reset');
    const question = await operator.confirm(reset.getByRole('button', { name: 'Reset to the user of the demo' }));
    assert.match(question, /^Reset demo\?/);
    await operator.isTold('Users removed: 1, added: 1.', reset);
    assert.equal((await ask(`/api/entitlement/v2/asset/${vod.open}`, {}, token)).status, 401);
    await operator.open('lab/demo');
    await operator.sees('No scenario was run.', scenario);
  });

  as('fits a phone, without barriers', async (operator, page) => {
    for (const place of ['lab', 'lab/demo']) {
      await operator.open(place);
      assert.deepEqual(await operator.barriers(), []);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 390, `${place} is ${wide} px wide`);
    }
  }, { phone: true });

  as('shows on the Requests page why a request was refused, and which fault it had', async (operator, page) => {
    const ann = await signUp(demo, 'why@example.org', 'Ann');
    const entitle = (asset) => call(demo, 'POST', `/api/entitlement/v2/asset/${asset}`, ann.bearer);
    await assert.rejects(entitle(demo.vod.premium), /NOT_ENTITLED/);
    const fault = { route: 'entitlement', times: 1, do: { refuse: 'GEO_BLOCKED' } };
    await appliance.operate('POST', '/admin/v1/partners/demo/faults', fault);
    await assert.rejects(entitle(demo.vod.open), /GEO_BLOCKED/);

    await operator.open('requests');
    await page.getByLabel('User', { exact: true }).fill('why@example.org');
    // It asks for the user first, and then goes to the page of their requests.
    await operator.follow(page.getByRole('button', { name: 'Find requests' }));
    const row = (code) => page.locator('tbody tr', { hasText: code });
    await row('GEO_BLOCKED').getByText('fault', { exact: true }).waitFor();
    await row('NOT_ENTITLED').getByText('subscription offer: the user does not have it').waitFor();
    await row('NOT_ENTITLED').getByRole('link', { name: 'why@example.org' }).waitFor();
    await row('NOT_ENTITLED').getByRole('link', { name: 'entitlement' }).click();
    await operator.sees('The decision at that moment');
    const failed = page.locator('tr', { hasText: '✗' });
    assert.match(await failed.innerText(), /offer\s+premium\s+subscription offer: the user does not have it/);
    assert.deepEqual(await operator.barriers(), []);
  });
});

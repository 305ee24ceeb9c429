// The archive of the request journal in programs of others: a validator of HAR 1.2, and Chromium, which replays it.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import validators from '@har-sdk/validator';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';
import { play, signUp } from './lib/partner.mjs';

const validator = new validators.HarValidator();

describe('the archive of the request journal', { skip }, () => {
  let appliance;
  let browser;
  let folder;
  let ann;

  before(async () => {
    [appliance, browser, folder] = await Promise.all([
      startAppliance(),
      launch(),
      mkdtemp(path.join(tmpdir(), 'playgate-har-')),
    ]);
    const { demo } = appliance;
    ann = await signUp(demo, `${crypto.randomUUID()}@example.org`, 'Ann');
    await assert.rejects(play(demo, ann, demo.vod.premium), /NOT_ENTITLED/);
    await (await play(demo, ann, demo.vod.open))();
  });

  after(async () => {
    await browser?.close();
    await appliance?.stop();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  const archive = (filter) => appliance.operate('GET', `/admin/v1/requests.har?${filter}`);

  it('is valid, with all its members and without a request', async () => {
    const kept = await archive(`user=${ann.userId}`);
    const routes = kept.log.entries.map(({ comment }) => comment);
    assert.deepEqual(routes.slice(0, 3), ['sign_up', 'entitlement', 'entitlement']);
    assert.deepEqual(await validator.verify(kept), []);
    const nothing = await archive('route=license');
    assert.deepEqual(nothing.log.entries, []);
    // HAR 1.2 allows an archive without entries; this validator wants one, and complains of nothing else.
    const complaints = await validator.verify(nothing);
    assert.deepEqual(complaints.map(({ instancePath, keyword }) => [instancePath, keyword]), [['/log/entries', 'minItems']]);
    // The validator finds what is wrong.
    delete kept.log.entries[0].request.cookies;
    assert.notDeepEqual(await validator.verify(kept), []);
  });

  it('is replayed by Chromium: a page gets the refusal again', async () => {
    const kept = await archive(`user=${ann.userId}&status=403`);
    const [{ request }] = kept.log.entries;
    const file = path.join(folder, 'refusals.har');
    await writeFile(file, JSON.stringify(kept));
    const context = await browser.newContext();
    await context.routeFromHAR(file, { notFound: 'abort' });
    const page = await context.newPage();
    // A page of the same origin, whose requests need no CORS. The server would refuse them: they have no partner token.
    const home = new URL('/', request.url).href;
    await page.route(home, (route) => route.fulfill({ contentType: 'text/html', body: '<!doctype html>' }));
    await page.goto(home);
    const replayed = await page.evaluate(
      async ({ url, method }) => {
        const answer = await fetch(url, { method });
        return [answer.status, (await answer.json()).error.code];
      },
      { url: request.url, method: request.method },
    );
    assert.deepEqual(replayed, [403, 'NOT_ENTITLED']);
    await context.close();
  });
});

// Requests: which are repeated and when, what an error says, caches and clocks. Some of these are what other clients were reported for;
// the test names where.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { PlaygateClient, PlaygateError, memoryStorage } from '../../data/client/playgate-client.js';
import { Service, refused } from './lib/service.mjs';
import { pass, settle, startTheClock, stopTheClock } from './lib/time.mjs';

const ASSETS = 'GET assets';

function open(options = {}) {
  const service = new Service();
  const storage = memoryStorage();
  const client = new PlaygateClient({ baseUrl: 'http://service.test/base', partnerToken: 'partner', fetch: service.fetch, storage, ...options });
  return { service, client };
}

/** The outcome of a promise, however long it takes in the time of the test. */
async function outcome(promise, seconds = 60) {
  let result;
  promise.then(
    (value) => (result = { value }),
    (error) => (result = { error }),
  );
  await settle();
  for (let passed = 0; !result && passed < seconds; passed += 0.5) await pass(0.5, 0.5);
  await settle();
  return result ?? {};
}

describe('a request', () => {
  beforeEach(stopTheClock);
  afterEach(startTheClock);

  test('is repeated after 1, 2 and 4 seconds when the service fails, and then is an error', async () => {
    const { service, client } = open();
    service.always(ASSETS, refused(500, 'INTERNAL'));
    const { error } = await outcome(client.guide.assets());
    const waits = service.calls.map(({ at }, i) => (at - (service.calls[i - 1]?.at ?? at)) / 1000);
    assert.deepEqual(waits, [0, 1, 2, 4]);
    assert.equal(error.status, 500);
    assert.equal(error.code, 'INTERNAL');
    assert.equal(error.userMessage, 'INTERNAL for viewers');
    assert.equal(error.requestId, 'r4');
  });

  test('waits as long as Retry-After says', async () => {
    const { service, client } = open();
    service.plan(ASSETS, refused(503, 'OVERLOADED', {}, { 'Retry-After': '7' }), refused(429, 'RATE_LIMITED', { retryAfter: 5 }), { body: [] });
    assert.deepEqual((await outcome(client.guide.assets())).value, []);
    const [first, second, third] = service.calls.map(({ at }) => at / 1000);
    assert.deepEqual([second - first, third - second], [7, 5]);
  });

  test('is an error at once where a viewer would have to wait for minutes', async () => {
    const { service, client } = open();
    service.always(ASSETS, refused(429, 'RATE_LIMITED', {}, { 'Retry-After': '900' }));
    const { error } = await outcome(client.guide.assets(), 1);
    assert.equal(error.retryAfter, 900);
    assert.equal(service.calls.length, 1);
  });

  for (const [status, code] of [[400, 'INVALID_REQUEST'], [401, 'PARTNER_TOKEN_INVALID'], [403, 'NOT_ENTITLED'], [552, 'NO_LIVE_RIGHTS']]) {
    test(`is not repeated after ${status} ${code}`, async () => {
      const { service, client } = open();
      service.always(ASSETS, refused(status, code, { field: 'limit' }));
      const { error } = await outcome(client.guide.assets());
      assert.equal(error.code, code);
      assert.equal(error.details.field, 'limit');
      assert.equal(service.calls.length, 1);
    });
  }

  test('that changes something is not repeated when its answer is lost', async () => {
    const { service, client } = open();
    service.plan('PUT email', { lost: true });
    const { error } = await outcome(client.signUp('ann@example.org', 'a long pass phrase'));
    assert.equal(error.code, 'NO_ANSWER');
    assert.equal(service.count('PUT email'), 1);
    service.plan('PUT email', refused(503, 'OVERLOADED', {}, { 'Retry-After': '1' }));
    assert.equal((await outcome(client.signUp('ann@example.org', 'a long pass phrase'))).value.userId, 'ann');
    assert.equal(service.count('PUT email'), 3);
  });

  test('without an answer ends after 15 seconds, three times repeated', async () => {
    const { service, client } = open();
    service.always(ASSETS, { hangs: true });
    const { error } = await outcome(client.guide.assets(), 80);
    assert.equal(error.code, 'NO_ANSWER');
    assert.equal(error.status, 0);
    assert.match(error.message, /http:\/\/service\.test.*CORS/);
    assert.equal(service.calls.length, 4);
  });

  test('that is aborted says so, also between repetitions', async () => {
    const { service, client } = open();
    service.always(ASSETS, refused(500, 'INTERNAL'));
    const controller = new AbortController();
    const asked = client.request('GET', 'api/catalog/v1/assets', { signal: controller.signal });
    const ended = outcome(asked);
    await pass(2);
    controller.abort();
    assert.equal((await ended).error.code, 'ABORTED');
    assert.equal(service.calls.length, 2);
  });

  test('of the same address as another is answered too (pocketbase/js-sdk 22)', async () => {
    const { client, service } = open();
    service.always(ASSETS, { body: [{ id: 'film' }] });
    const answers = await Promise.all([client.guide.assets(), client.guide.assets(), client.guide.assets()]);
    assert.deepEqual(answers.map(([{ id }]) => id), ['film', 'film', 'film']);
  });

  test('carries the prefix of the installation, and its base path', async () => {
    const { service, client } = open({ headerPrefix: 'Acme-', language: 'sv' });
    await client.guide.assets();
    const { path, headers } = service.calls[0];
    assert.equal(path, '/base/api/catalog/v1/assets');
    assert.equal(headers['Acme-AccessToken'], 'partner');
    assert.equal(headers['Accept-Language'], 'sv');
  });

  test('of any number of ids is split, and its answers are one', async () => {
    const { service, client } = open();
    const ids = Array.from({ length: 450 }, (_, i) => `channel-${i}`);
    service.always('GET live', ({ query }) => {
      const asked = new URLSearchParams(query).get('livestreams').split(',');
      if (asked.includes('channel-449')) return refused(404, 'LIVESTREAM_NOT_FOUND');
      return { body: Object.fromEntries(asked.map((id) => [id, { current: { id } }])) };
    });
    const live = await client.guide.live(ids, { offset: -60 });
    assert.equal(service.calls.length, 3);
    assert.equal(Object.keys(live).length, 400);
    assert.ok(service.calls.every(({ query }) => query.endsWith('&offset=-60') && query.length < 8000));
    await assert.rejects(client.guide.live(['channel-449']), { code: 'LIVESTREAM_NOT_FOUND' });
  });
});

describe('the cache', () => {
  beforeEach(stopTheClock);
  afterEach(startTheClock);

  test('answers while it is fresh, then asks whether anything has changed', async () => {
    const { service, client } = open();
    const headers = { ETag: '"one"', 'Cache-Control': 'private, max-age=10' };
    service.plan(ASSETS, { body: [{ id: 'film' }], headers }, { status: 304, headers }, { body: [], headers: { ETag: '"two"' } });
    const [film] = await client.guide.assets();
    film.id = 'changed by the application';
    assert.deepEqual(await client.guide.assets(), [{ id: 'film' }]);
    assert.equal(service.calls.length, 1);
    await pass(11);
    assert.deepEqual(await client.guide.assets(), [{ id: 'film' }]);
    assert.equal(service.calls[1].headers['If-None-Match'], '"one"');
    await pass(11);
    assert.deepEqual(await client.guide.assets(), []);
  });
});

describe('the clock', () => {
  beforeEach(stopTheClock);
  afterEach(startTheClock);

  for (const ahead of [-3600, 0, 3600]) {
    test(`is right with a machine that is ${-ahead} s off (keycloak 32162)`, async () => {
      const { service, client } = open();
      service.ahead = ahead;
      await client.guide.assets();
      assert.ok(Math.abs(client.clock.now() - service.now()) <= 1, `${client.clock.now() - service.now()}`);
    });
  }

  test('follows a clock that is set', async () => {
    const { service, client } = open();
    await client.guide.assets();
    service.ahead = 7200;
    await client.guide.livestreams();
    assert.ok(Math.abs(client.clock.now() - service.now()) <= 1);
  });
});

describe('an address that is wrong', () => {
  for (const baseUrl of ['', 'not an address', 'ftp://host', undefined]) {
    test(`is refused before any request: ${baseUrl}`, () => {
      assert.throws(() => new PlaygateClient({ baseUrl, partnerToken: 'x' }), { name: 'PlaygateError', code: 'INVALID_OPTION' });
    });
  }

  test('is refused without a partner token', () => {
    assert.throws(() => new PlaygateClient({ baseUrl: 'http://host' }), { code: 'INVALID_OPTION' });
  });

  for (const [what, status, body] of [
    ['page of another server', 404, '<html>not here</html>'],
    ['log-in page of a hotel', 200, '<html>room number</html>'],
  ]) {
    test(`that leads to the ${what} is a clear error`, async () => {
      const server = createServer((_, response) => response.writeHead(status).end(body));
      await new Promise((done) => server.listen(0, '127.0.0.1', done));
      const client = new PlaygateClient({ baseUrl: `http://127.0.0.1:${server.address().port}`, partnerToken: 'x', storage: memoryStorage() });
      const error = await client.guide.assets().catch((refusal) => refusal);
      server.close();
      assert.ok(error instanceof PlaygateError);
      assert.equal(error.code, 'BAD_ANSWER');
      assert.match(error.message, /127\.0\.0\.1/);
    });
  }
});

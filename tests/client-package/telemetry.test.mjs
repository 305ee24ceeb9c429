// Events: numbered without holes, in batches, kept after a failure, dropped after a refusal, sent before the page closes.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { PlaygateClient, memoryStorage } from '../../data/client/playgate-client.js';
import { Service, refused } from './lib/service.mjs';
import { pass, settle, startTheClock, stopTheClock } from './lib/time.mjs';

const ROUTE = 'POST telemetry-events';

async function open(options = {}) {
  const service = new Service();
  const client = new PlaygateClient({
    baseUrl: 'http://service.test', partnerToken: 'partner', fetch: service.fetch, storage: memoryStorage(), app: { name: 'tv', version: '2.1' }, ...options,
  });
  await client.logIn('ann@example.org', 'a long pass phrase');
  const sent = () => service.calls.filter(({ route }) => route === ROUTE).map(({ body }) => body.map(({ seqId }) => seqId));
  return { service, client, telemetry: client.telemetry, sent };
}

const numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const report = (telemetry, times) => numbers(1, times).forEach(() => telemetry.report('playback_paused'));

describe('telemetry', () => {
  beforeEach(stopTheClock);
  afterEach(startTheClock);

  test('sends what ten seconds bring, with the device and in the time of the service', async () => {
    const { client, service, telemetry } = await open({ device: { platform: 'tizen', type: 'tv', model: 'Q60', id: 'tv-1' } });
    service.ahead = 3600;
    await client.guide.assets();
    telemetry.report('playback_started', { asset_id: 'film' });
    telemetry.report('playback_paused');
    await pass(10);
    const { body } = service.last(ROUTE);
    assert.equal(body.length, 2);
    const [{ action, seqId, source, context, extra, timestamp }] = body;
    assert.deepEqual({ action, seqId, source }, { action: 'playback_started', seqId: 1, source: 'APP_ACTION' });
    assert.deepEqual(context, { device_platform: 'tizen', device_type: 'tv', device_model: 'Q60', device_id: 'tv-1', app_version: '2.1', asset_id: 'film' });
    assert.deepEqual(extra, { app_name: 'tv' });
    assert.ok(Math.abs(timestamp / 1000 - service.now()) < 15);
    assert.equal(telemetry.waiting, 0);
  });

  test('keeps the order of events while the clock is estimated better, and follows one that was set', async () => {
    const { client, service, telemetry } = await open();
    const here = Date.now() / 1000;
    client.clock.observe(here, here);
    telemetry.report('playback_started');
    client.clock.observe(here - 1, here);
    telemetry.report('playback_stopped');
    client.clock.observe(here - 3600, here);
    telemetry.report('playback_request');
    await pass(10);
    const [started, stopped, set] = service.last(ROUTE).body.map(({ timestamp }) => timestamp);
    assert.ok(stopped >= started, `${stopped} before ${started}`);
    assert.ok(started - set > 3_000_000, `${set}`);
  });

  test('keeps a batch after 429, 5xx and silence, with the numbers it has', async () => {
    const { service, telemetry, sent } = await open();
    service.plan(ROUTE, refused(429, 'RATE_LIMITED', {}, { 'Retry-After': '40' }), refused(503, 'OVERLOADED'), { lost: true });
    telemetry.report('playback_started');
    await pass(10);
    assert.equal(service.count(ROUTE), 1);
    await pass(39);
    assert.equal(service.count(ROUTE), 1);
    await pass(60);
    assert.deepEqual(sent(), [[1], [1], [1], [1]]);
    assert.equal(telemetry.waiting, 0);
  });

  test('drops a batch that is refused, and goes on', async () => {
    const { service, telemetry, sent } = await open();
    service.plan(ROUTE, refused(400, 'INVALID_REQUEST'));
    telemetry.report('playback_started');
    await pass(10);
    telemetry.report('playback_paused');
    await pass(10);
    assert.deepEqual(sent(), [[1], [2]]);
  });

  test('halves a batch that is too large', async () => {
    const { service, telemetry, sent } = await open();
    service.plan(ROUTE, refused(413, 'PAYLOAD_TOO_LARGE'));
    report(telemetry, 8);
    await pass(10);
    assert.deepEqual(sent(), [numbers(1, 8), numbers(1, 4), numbers(5, 8)]);
  });

  test('sends a hundred at a time, and keeps a thousand while the service is away', async () => {
    const { service, telemetry, sent } = await open();
    service.always(ROUTE, { lost: true });
    report(telemetry, 1_500);
    await settle();
    assert.equal(telemetry.waiting, 1_000);
    service.always(ROUTE, { status: 202, body: {} });
    await pass(60);
    assert.equal(telemetry.waiting, 0);
    assert.ok(sent().every(({ length }) => length <= 100));
    assert.deepEqual(sent().slice(1).flat(), numbers(501, 1_500));
  });

  test('of a closing page fits into what outlives it (sentry-javascript 2547)', async () => {
    const { service, telemetry } = await open();
    const long = 'x'.repeat(2_000);
    numbers(1, 60).forEach(() => telemetry.report('playback_error', { text: long }));
    telemetry.sendBeforeClose();
    await settle();
    const { body, keepalive } = service.last(ROUTE);
    assert.equal(keepalive, true);
    assert.ok(JSON.stringify(body).length < 64 * 1024, `${JSON.stringify(body).length}`);
    assert.ok(body.length >= 15, `${body.length}`);
    assert.equal(telemetry.waiting, 60 - body.length);
  });

  test('needs no log-in, and waits for one', async () => {
    const { client, service, telemetry } = await open({ credentials: () => assert.fail('events alone ask for credentials') });
    await client.logOut();
    telemetry.report('app_opened');
    await pass(30);
    assert.equal(service.count(ROUTE), 0);
    await client.logIn('ann@example.org', 'a long pass phrase');
    await pass(10);
    assert.equal(service.count(ROUTE), 1);
  });

  test('of one user is not reported as that of another', async () => {
    const { client, service, telemetry, sent } = await open();
    service.plan(ROUTE, { lost: true }, { lost: true });
    telemetry.report('playback_started');
    await client.logOut();
    service.plan('POST email', () => {
      service.tokens.add('bob');
      return { body: { token: 'bob', userId: 'bob', sessionId: 'other' } };
    });
    await client.logIn('bob@example.org', 'a long pass phrase');
    telemetry.report('playback_started');
    await pass(60);
    assert.deepEqual(sent().at(-1), [2]);
  });
});

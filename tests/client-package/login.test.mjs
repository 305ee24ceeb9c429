// Who is logged in: one log-in for many refusals, other tabs, storage that is blocked.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PlaygateClient, memoryStorage } from '../../data/client/playgate-client.js';
import { Service, refused } from './lib/service.mjs';

const USER = { userId: 'ann', sessionId: 'login', token: 'first' };
const KEY = 'playgate:user:http://service.test/';

function open({ storage = memoryStorage(), user = USER, service = new Service(), ...options } = {}) {
  if (user) storage.setItem(KEY, JSON.stringify(user));
  const client = new PlaygateClient({ baseUrl: 'http://service.test', partnerToken: 'partner', fetch: service.fetch, storage, ...options });
  return { service, client, storage };
}

const credentials = async () => ({ identity: 'ann@example.org', accessKey: 'a long pass phrase' });

describe('a token that has ended', () => {
  test('is renewed once, however many requests find it out (saleor-dashboard 6795)', async () => {
    const { client, service } = open({ credentials });
    await client.ready;
    service.tokens.clear();
    await Promise.all(Array.from({ length: 8 }, () => client.account.profile()));
    assert.equal(service.count('POST email'), 1);
    assert.equal(service.count('GET ann'), 16);
    await client.account.devices();
    assert.equal(service.count('POST email'), 1);
  });

  test('is forgotten where the application has no credentials', async () => {
    const { client, service, storage } = open();
    const seen = [];
    client.onUserChange((user) => seen.push(user));
    service.tokens.clear();
    await assert.rejects(client.account.profile(), { code: 'USER_TOKEN_INVALID' });
    assert.deepEqual(seen, [null]);
    assert.equal(storage.getItem(KEY), null);
    await assert.rejects(client.account.profile(), { code: 'NOT_LOGGED_IN' });
    assert.equal(service.calls.length, 1);
  });

  test('that another tab has renewed is taken from there (supabase/auth-js 213)', async () => {
    const { client, service, storage } = open({ credentials });
    await client.ready;
    service.tokens = new Set(['second']);
    storage.setItem(KEY, JSON.stringify({ ...USER, token: 'second' }));
    await client.account.profile();
    assert.equal(service.count('POST email'), 0);
    assert.equal(client.user.token, 'second');
  });

  test('is asked for again after credentials that failed, and nothing hangs (supabase-js 2235)', async () => {
    let asked = 0;
    const failing = async () => {
      asked += 1;
      if (asked === 1) throw new Error('the form was closed');
      return credentials();
    };
    const { client } = open({ credentials: failing, user: null });
    await assert.rejects(client.account.profile(), /the form was closed/);
    await client.account.profile();
    assert.equal(asked, 2);
  });

  test('is renewed once and then is an error, never a loop', async () => {
    const { client, service } = open({ credentials });
    service.always('GET ann', refused(401, 'USER_TOKEN_INVALID'));
    await assert.rejects(client.account.profile(), { code: 'USER_TOKEN_INVALID' });
    assert.equal(service.count('POST email'), 1);
    assert.equal(service.count('GET ann'), 2);
  });

  test('of a 403 is kept', async () => {
    const { client, service } = open({ credentials });
    service.always('GET ann', refused(403, 'NOT_ENTITLED'));
    await assert.rejects(client.account.profile(), { code: 'NOT_ENTITLED' });
    assert.equal(client.user.token, 'first');
    assert.equal(service.count('POST email'), 0);
  });
});

describe('wrong credentials', () => {
  test('are no log-out', async () => {
    const { client, service } = open();
    service.plan('POST email', refused(401, 'INVALID_CREDENTIALS'));
    await assert.rejects(client.logIn('ann@example.org', 'wrong'), { code: 'INVALID_CREDENTIALS' });
    assert.equal(client.user.token, 'first');
    assert.equal(service.count('POST email'), 1);
  });
});

describe('storage', () => {
  const blocked = () => {
    throw new DOMException('Access is denied for this document.', 'SecurityError');
  };

  test('that is blocked costs the next page its log-in, and nothing else (firebase-js-sdk 1774)', async () => {
    const storage = { getItem: blocked, setItem: blocked, removeItem: blocked };
    const { client } = open({ storage, user: null });
    await client.logIn('ann@example.org', 'a long pass phrase');
    await client.account.profile();
    const id = await client.deviceId;
    assert.equal(await client.deviceId, id);
    await client.logOut();
    assert.equal(client.user, null);
  });

  test('that is full keeps the log-in for the page', async () => {
    const storage = { ...memoryStorage(), setItem: () => { throw new DOMException('full', 'QuotaExceededError'); } };
    const { client } = open({ storage, user: null });
    await client.logIn('ann@example.org', 'a long pass phrase');
    await client.account.profile();
  });

  test('whose access alone throws, as in a frame without cookies, is done without', async () => {
    Object.defineProperty(globalThis, 'localStorage', { get: blocked, configurable: true });
    try {
      const { fetch } = new Service();
      const client = new PlaygateClient({ baseUrl: 'http://service.test', partnerToken: 'partner', fetch });
      await client.logIn('ann@example.org', 'a long pass phrase');
      await client.account.profile();
    } finally {
      delete globalThis.localStorage;
    }
  });

  test('may be asynchronous, and may hold nonsense', async () => {
    const kept = new Map([[KEY, '{"cut']]);
    const storage = {
      getItem: async (key) => kept.get(key) ?? null,
      setItem: async (key, value) => void kept.set(key, value),
      removeItem: async (key) => void kept.delete(key),
    };
    const { client } = open({ storage, user: null });
    await client.ready;
    assert.equal(client.user, null);
    await client.logIn('ann@example.org', 'a long pass phrase');
    assert.equal(JSON.parse(kept.get(KEY)).userId, 'ann');
  });

  test('keeps the device id over pages, so that a start is no new device', async () => {
    const { client, storage } = open();
    const again = open({ storage });
    assert.equal(await client.deviceId, await again.client.deviceId);
  });
});

describe('a log-out', () => {
  test('forgets the token whatever the service answers', async () => {
    const { client, service, storage } = open();
    service.plan('POST logout', refused(401, 'USER_TOKEN_INVALID'));
    await client.logOut();
    assert.equal(storage.getItem(KEY), null);
    assert.equal(client.user, null);
  });
});

// The life of a playback, with a player that needs no pictures and a clock that runs as fast as the test.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { PlaybackSession, PlaygateClient, memoryStorage } from '../../data/client/playgate-client.js';
import { Player } from './lib/player.mjs';
import { Service, refused } from './lib/service.mjs';
import { BEGIN, pass, settle, startTheClock, stopTheClock } from './lib/time.mjs';

const BEAT = 'POST heartbeat';
const ASK = 'POST entitlement';
const PREPARE = 'POST preflight';
const END = 'DELETE heartbeat';
const EVENTS = 'POST telemetry-events';

const rejections = [];
process.on('unhandledRejection', (reason) => rejections.push(reason));

async function open({ live = true, options, ...clientOptions } = {}) {
  const service = new Service();
  service.live = live;
  const client = new PlaygateClient({
    baseUrl: 'http://service.test', partnerToken: 'partner', fetch: service.fetch, storage: memoryStorage(), ...clientOptions,
  });
  await client.logIn('ann@example.org', 'a long pass phrase');
  const player = new Player();
  if (live) player.start = 0;
  const session = new PlaybackSession(client, player, options);
  const states = [];
  session.addEventListener('statechange', () => states.push(session.state));
  const seconds = (route) => service.calls.filter((call) => call.route === route).map(({ at }) => Math.round((at - BEGIN) / 1000));
  const events = () => service.calls.filter(({ route }) => route === EVENTS).flatMap(({ body }) => body);
  const actions = () => events().map(({ action }) => action).filter((action) => action !== 'playback_buffering');
  return { service, client, player, session, states, seconds, events, actions };
}

/** An answer that comes when the test lets it. */
function later() {
  let answer;
  const promise = new Promise((done) => (answer = done));
  return { promise, answer };
}

describe('a session', () => {
  beforeEach(stopTheClock);
  afterEach(() => {
    startTheClock();
    assert.deepEqual(rejections.splice(0), []);
  });

  test('asks, prepares, plays, sends a heartbeat every ten seconds, and ends', async () => {
    const { service, player, session, states, seconds, actions } = await open();
    await session.start('open');
    assert.equal(session.state, 'playing');
    await pass(35);
    await session.stop();
    assert.deepEqual(states, ['starting', 'playing', 'ended']);
    assert.equal(session.reason, 'stopped');
    assert.deepEqual(seconds(BEAT), [0, 10, 20, 30]);
    const { headers } = service.last(BEAT);
    assert.equal(headers['Service-Play-Session'], 's1');
    assert.equal(headers['Service-Play-Timestamp'], String(BEGIN / 1000 + 30));
    assert.equal(headers['Service-Play-Bitrate'], '2000000');
    assert.equal(headers['Service-Play-ResolutionWidth'], '1280');
    assert.equal(service.count(END), 1);
    assert.deepEqual(actions(), ['playback_request', 'playback_started', 'playback_stopped']);
    await pass(60);
    assert.equal(service.count(BEAT), 4);
    assert.equal(player.media.listeners, 0);
  });

  test('counts heartbeats from one to the next, however slow their answers are', async () => {
    const { service, session, seconds } = await open();
    service.always(BEAT, async () => {
      const { promise, answer } = later();
      setTimeout(() => answer({ body: { interval: 10, serverTime: Math.floor(service.now()) } }), 4_000);
      return promise;
    });
    await session.start('open');
    await pass(31);
    assert.deepEqual(seconds(BEAT), [0, 10, 20, 30]);
    await session.stop();
  });

  test('sends the next heartbeat although the one before has no answer', async () => {
    const { service, session, seconds } = await open();
    service.plan(BEAT, { body: { interval: 5, serverTime: service.now() } });
    service.always(BEAT, { hangs: true });
    await session.start('open');
    await pass(31);
    assert.deepEqual(seconds(BEAT), [0, 10, 15, 20, 25, 30]);
    assert.equal(session.state, 'playing');
    await session.stop();
  });

  test('reports a seek at once while the heartbeat before it is under way, and does not heed that one', async () => {
    const { service, player, session, seconds } = await open();
    await session.start('open');
    await pass(9);
    const { promise, answer } = later();
    service.plan(BEAT, () => promise);
    await pass(2);
    await session.seek(session.position - 5);
    await pass(2);
    answer(refused(429, 'RATE_LIMITED', {}, { 'Retry-After': '30' }));
    await pass(25);
    assert.deepEqual(seconds(BEAT), [0, 10, 12, 22, 32]);
    assert.equal(session.state, 'playing');
    assert.equal(player.media.paused, false);
    await session.stop();
  });

  test('plays on through a minute without a network, and reports it afterwards', async () => {
    const { service, session, events } = await open();
    await session.start('open');
    await pass(15);
    service.always(BEAT, { lost: true });
    service.always(EVENTS, { lost: true });
    await pass(60);
    assert.equal(session.state, 'playing');
    service.always(BEAT, undefined);
    service.always(EVENTS, undefined);
    await pass(60);
    assert.equal(session.state, 'playing');
    assert.equal(service.count(PREPARE), 1);
    await session.stop();
    const numbers = events().map(({ seqId }) => seqId);
    assert.deepEqual([...new Set(numbers)], numbers.map((_, i) => i + 1).slice(0, new Set(numbers).size));
  });

  test('whose media do not come loads them again in the same session, for two minutes', async () => {
    const { service, player, session } = await open({ live: false });
    service.always('GET broadcasts', { body: {} });
    const { playerError } = await import('../../data/client/drm.js');
    const fail = () => player.events.failed(playerError('no segment', { request: true, status: 0 }));
    await session.start('film');
    await pass(20);
    player.plays = false;
    fail();
    await settle();
    assert.equal(session.state, 'held');
    assert.equal(session.error.code, 'NO_ANSWER');
    await pass(2);
    assert.equal(player.loads.length, 2);
    assert.ok(Math.abs(player.loads[1].position - 20) < 2, `${player.loads[1].position}`);
    player.plays = true;
    fail();
    await pass(5);
    assert.equal(session.state, 'playing');
    assert.equal(service.count(PREPARE), 1);
    player.plays = false;
    fail();
    for (let waited = 0; waited < 200 && session.state !== 'ended'; waited += 5) {
      await pass(5);
      if (session.state !== 'ended') fail();
    }
    await settle();
    assert.equal(session.error.code, 'NO_ANSWER');
    assert.equal(service.count(END), 1);
  });

  test('asks for entitlement when the next program begins, once, in the session', async () => {
    const { service, session, seconds } = await open();
    const programs = [];
    session.addEventListener('programchange', () => programs.push(session.program?.broadcastId));
    await session.start('open');
    // The player beats on its own; time goes by its `timeupdate`.
    const border = service.program().stop - BEGIN / 1000;
    await pass(border + 15);
    assert.equal(service.count(ASK), 2);
    assert.ok(seconds(ASK)[1] >= border + 3 && seconds(ASK)[1] <= border + 13, `${seconds(ASK)[1]}`);
    assert.equal(service.last(ASK).headers['Service-Play-Session'], 's1');
    assert.equal(programs.length, 2);
    await session.stop();
  });

  test('stops the picture at 552, keeps its session, and goes on by itself', async () => {
    const { service, player, session, states, actions } = await open();
    await session.start('open');
    player.media.currentTime -= 20; // as far as players are behind
    await pass(5);
    service.plan(BEAT, refused(552, 'NO_LIVE_RIGHTS'), refused(552, 'NO_LIVE_RIGHTS'));
    await pass(5);
    assert.equal(session.state, 'held');
    assert.equal(player.media.paused, true);
    assert.equal(session.error.userMessage, 'NO_LIVE_RIGHTS for viewers');
    await pass(10);
    assert.ok(Math.abs(Number(service.last(BEAT).headers['Service-Play-Timestamp']) - service.now()) < 2, 'the live point');
    await pass(15);
    assert.equal(session.state, 'playing');
    assert.equal(player.media.paused, false);
    assert.equal(session.error, null);
    assert.equal(service.count(PREPARE), 1);
    await session.stop();
    assert.deepEqual(states.filter((state, i) => state !== states[i - 1]), ['starting', 'playing', 'held', 'playing', 'ended']);
    assert.deepEqual(actions().slice(1), ['playback_started', 'playback_paused', 'playback_resumed', 'playback_stopped']);
  });

  test('ends at 410 with the reason, and sends nothing more', async () => {
    const { service, session, actions } = await open();
    await session.start('open');
    service.plan(BEAT, refused(410, 'SESSION_ENDED', { reason: 'displaced' }));
    await pass(60);
    assert.equal(session.state, 'ended');
    assert.equal(session.reason, 'displaced');
    assert.equal(service.count(BEAT), 2);
    assert.equal(service.count(END), 0);
    assert.deepEqual(actions(), ['playback_request', 'playback_started', 'playback_error', 'playback_stopped']);
  });

  test('whose media tell of its end before a heartbeat does ends, and says so to the service', async () => {
    const { service, player, session } = await open();
    const { playerError } = await import('../../data/client/drm.js');
    await session.start('open');
    await pass(3);
    const text = JSON.stringify(refused(410, 'SESSION_ENDED', { reason: 'displaced' }).body);
    player.events.failed(playerError('a code of the player', { request: true, status: 410, text }));
    await pass(30);
    assert.equal(session.reason, 'displaced');
    assert.equal(service.count(BEAT), 1);
    assert.equal(service.count(END), 1);
  });

  test('that the service does not know is replaced once, at its position', async () => {
    const { service, player, session } = await open({ live: false });
    service.always('GET broadcasts', { body: {} });
    await session.start('film');
    await pass(15);
    service.plan(BEAT, refused(404, 'SESSION_NOT_FOUND'));
    await pass(10);
    assert.equal(service.count(PREPARE), 2);
    assert.equal(session.state, 'playing');
    assert.ok(Math.abs(player.loads[1].position - 20) < 2, `${player.loads[1].position}`);
    service.plan(BEAT, refused(404, 'SESSION_NOT_FOUND'));
    await pass(20);
    assert.equal(session.state, 'ended');
    assert.equal(session.error.code, 'SESSION_NOT_FOUND');
    assert.equal(service.count(PREPARE), 2);
  });

  test('renews an entitlement that has expired', async () => {
    const { service, session } = await open();
    await session.start('open');
    service.plan(BEAT, { body: { interval: 10, serverTime: service.now() } }, refused(403, 'ENTITLEMENT_EXPIRED'));
    await pass(35);
    assert.equal(session.state, 'playing');
    assert.equal(service.count(ASK), 2);
    assert.equal(service.count(PREPARE), 1);
    assert.equal(service.last(BEAT).headers['Service-Play-EntitlementId'], 'pge_' + (service.calls.indexOf(service.last(ASK)) + 1));
    await session.stop();
  });

  test('whose token ends in mid-play logs in once and plays on', async () => {
    const { service, session } = await open({ credentials: async () => ({ identity: 'ann@example.org', accessKey: 'a long pass phrase' }) });
    await session.start('open');
    await pass(5);
    service.tokens.clear();
    await pass(30);
    assert.equal(service.count('POST email'), 2);
    assert.equal(session.state, 'playing');
    await session.stop();
  });

  test('that waits for the viewer to log in sends one heartbeat afterwards, not all that were due', async () => {
    const { promise, answer } = later();
    const { service, session } = await open({ credentials: () => promise });
    await session.start('open');
    await pass(5);
    service.tokens.clear();
    await pass(50);
    const before = service.count(BEAT);
    answer({ identity: 'ann@example.org', accessKey: 'a long pass phrase' });
    await settle();
    assert.equal(service.count(BEAT), before + 1);
    assert.equal(session.state, 'playing');
    await session.stop();
  });

  test('whose token ends, where nobody can log in, ends and says so', async () => {
    const { service, session, client } = await open();
    await session.start('open');
    await pass(5);
    service.tokens.clear();
    await pass(30);
    assert.equal(session.state, 'ended');
    assert.equal(session.error.code, 'USER_TOKEN_INVALID');
    assert.equal(client.user, null);
    assert.equal(service.count(BEAT), 2);
  });

  test('plays on through 400, 429 and 5xx of a heartbeat, and waits where it is told to', async () => {
    const { service, session, seconds } = await open();
    const refusals = [];
    session.addEventListener('refusal', ({ detail }) => refusals.push(detail.status));
    await session.start('open');
    service.plan(BEAT, refused(400, 'INVALID_REQUEST'), refused(500, 'INTERNAL'), refused(429, 'RATE_LIMITED', {}, { 'Retry-After': '20' }));
    await pass(65);
    assert.deepEqual(refusals, [400, 500, 429]);
    assert.deepEqual(seconds(BEAT), [0, 10, 20, 30, 50, 60]);
    assert.equal(session.state, 'playing');
    await session.stop();
  });

  test('after a night of sleep says that it has expired, and makes up for nothing', async () => {
    const { service, session } = await open();
    await session.start('open');
    await pass(12);
    service.always(BEAT, refused(410, 'SESSION_ENDED', { reason: 'expired' }));
    await pass(8 * 3600, 8 * 3600); // one step: timers fire late, as after a sleep
    await settle();
    assert.equal(session.reason, 'expired');
    assert.equal(service.count(BEAT), 3);
  });
});

describe('the PIN', () => {
  beforeEach(stopTheClock);
  afterEach(startTheClock);

  const guarded = (service) => ({ body }) =>
    body?.pinCode === '2580' ? { body: { token: 'open', expires: 0, program: service.program() } }
    : body?.pinCode === undefined ? refused(403, 'PIN_CODE_REQUIRED')
    : refused(403, 'PIN_CODE_WRONG', { attemptsLeft: 4 });

  test('is asked for until it is right', async () => {
    const entries = ['12', '0000', '2580'];
    const asked = [];
    const askPin = async ({ code, details }) => {
      asked.push([code, details.attemptsLeft]);
      return entries.shift();
    };
    const { service, session, states } = await open({ options: { askPin } });
    const check = guarded(service);
    service.always(ASK, (call) => (call.body?.pinCode === '12' ? refused(400, 'INVALID_REQUEST') : check(call)));
    await session.start('film');
    assert.deepEqual(asked, [['PIN_CODE_REQUIRED', undefined], ['INVALID_REQUEST', undefined], ['PIN_CODE_WRONG', 4]]);
    assert.equal(session.state, 'playing');
    assert.ok(states.includes('pin'));
    await session.stop();
  });

  test('that the viewer does not give ends the start, without a preflight', async () => {
    const { service, session } = await open({ options: { askPin: async () => null } });
    service.always(ASK, guarded(service));
    await session.start('film');
    assert.equal(session.state, 'ended');
    assert.equal(session.error.code, 'PIN_CODE_REQUIRED');
    assert.equal(service.count(PREPARE), 0);
  });

  test('is asked for once a program, with the picture stopped', async () => {
    const { promise, answer } = later();
    let asked = 0;
    const { service, session, player } = await open({ options: { askPin: () => ((asked += 1), promise) } });
    await session.start('open');
    service.always(ASK, guarded(service));
    service.plan(BEAT, refused(403, 'PIN_CODE_REQUIRED'), refused(403, 'PIN_CODE_REQUIRED'));
    await pass(25);
    assert.equal(asked, 1);
    assert.equal(session.state, 'pin');
    assert.equal(player.media.paused, true);
    answer('2580');
    await pass(10);
    assert.equal(session.state, 'playing');
    assert.equal(asked, 1);
    await session.stop();
  });

  test('pad is withdrawn when the viewer leaves', async () => {
    let signal;
    const { service, session } = await open({ options: { askPin: (_, given) => ((signal = given), new Promise(() => {})) } });
    service.always(ASK, guarded(service));
    void session.start('film');
    await settle();
    await session.stop();
    assert.equal(signal.aborted, true);
    assert.equal(session.state, 'ended');
  });

  test('that is locked ends the start with the time to wait', async () => {
    const { service, session } = await open({ options: { askPin: async () => '0000' } });
    service.plan(ASK, refused(403, 'PIN_CODE_REQUIRED'), refused(429, 'PIN_CODE_LOCKED', { retryAfter: 900 }));
    await session.start('film');
    assert.equal(session.error.retryAfter, 900);
    assert.equal(service.count(ASK), 2);
  });
});

describe('a start', () => {
  beforeEach(stopTheClock);
  afterEach(() => {
    startTheClock();
    assert.deepEqual(rejections.splice(0), []);
  });

  for (const code of ['NOT_ENTITLED', 'GEO_BLOCKED', 'NOT_AVAILABLE', 'NO_LIVE_RIGHTS']) {
    test(`that is refused with ${code} says so, and asks once`, async () => {
      const { service, session, client } = await open();
      service.always(ASK, refused(403, code));
      await session.start('open');
      assert.equal(session.state, 'ended');
      assert.equal(session.error.code, code);
      assert.equal(service.count(ASK), 1);
      assert.ok(client.user, 'a 403 is no log-out');
    });
  }

  test('beyond the limit of streams lets the viewer end one', async () => {
    const sessions = [{ sessionId: 'other', assetId: 'news' }];
    const { service, session } = await open({ options: { chooseSession: async ([{ sessionId }]) => sessionId } });
    service.plan(PREPARE, refused(409, 'STREAM_LIMIT_REACHED', { sessions }));
    await session.start('open');
    assert.equal(service.count('DELETE other'), 1);
    assert.equal(session.state, 'playing');
    await session.stop();
  });

  test('beyond the limit of streams shows them where nobody chooses', async () => {
    const { service, session } = await open();
    service.plan(PREPARE, refused(409, 'STREAM_LIMIT_REACHED', { sessions: [{ sessionId: 'other' }] }));
    await session.start('open');
    assert.equal(session.error.details.sessions[0].sessionId, 'other');
    assert.equal(service.count(PREPARE), 1);
  });

  test('goes to the next DRM system that the service has, and remembers it', async () => {
    const { service, session, player } = await open();
    player.offered = [{ drm: 'widevine', protocol: 'dash' }, { drm: 'clearkey', protocol: 'dash' }];
    const licensed = ({ headers }) =>
      headers['Service-Play-DRM'] === 'widevine' ? refused(404, 'PROTOCOL_NOT_AVAILABLE')
      : { body: { playlist: 'p', license: 'l', heartbeat: 'http://service.test/api/playback/v1/heartbeat', heartbeatInterval: 10, headers: { 'Service-Play-Session': 's' } } };
    service.always(PREPARE, licensed);
    await session.start('open');
    assert.equal(service.count(PREPARE), 2);
    await session.start('open');
    assert.equal(service.count(PREPARE), 3);
    assert.equal(session.state, 'playing');
    await session.stop();
  });

  test('without a picture keeps the session alive, gives up after 30 seconds, and frees the stream', async () => {
    const { service, session, player, seconds, actions } = await open();
    player.plays = false;
    await session.start('open');
    await pass(40);
    assert.equal(session.state, 'ended');
    assert.equal(session.error.code, 'START_TIMEOUT');
    assert.deepEqual(seconds(BEAT), [7, 17, 27]);
    assert.equal(service.count(END), 1);
    assert.deepEqual(actions(), ['playback_request', 'playback_error']);
  });

  test('begins heartbeats within ten seconds of the preflight request, however slow the answers to the start are', async () => {
    const slow = (answer) => () => new Promise((done) => setTimeout(() => done(answer), 4_000));
    for (const live of [true, false]) {
      const { service, session, player, seconds } = await open({ live });
      player.plays = false;
      const ordinary = { playlist: 'p', heartbeat: 'http://service.test/api/playback/v1/heartbeat', heartbeatInterval: 10, headers: { 'Service-Play-Session': 's' } };
      service.plan(PREPARE, slow({ body: ordinary }));
      service.plan('GET broadcasts', slow({ body: {} }));
      const started = session.start('open');
      await settle();
      await pass(19);
      await started;
      const [asked] = seconds(PREPARE);
      assert.deepEqual(seconds(BEAT).map((at) => at - asked), [7, 17], `live: ${live}`);
      await session.stop();
    }
  });

  test('of a film sends heartbeats while the schedule does not answer', async () => {
    const { service, session, player, seconds } = await open({ live: false });
    service.always('GET broadcasts', { hangs: true });
    const started = session.start('film');
    await settle();
    await pass(18);
    assert.deepEqual(seconds(BEAT), [7, 17]);
    assert.equal(player.loads.length, 0);
    await session.stop();
    await pass(200);
    await started;
    assert.equal(player.loads.length, 0);
    assert.equal(service.count(END), 1);
  });

  test('that the browser does not allow without a click is paused (expo 49753)', async () => {
    const { session, player } = await open();
    const { play } = player.media;
    player.media.play = () => Promise.reject(new DOMException('click first', 'NotAllowedError'));
    await session.start('open');
    await settle();
    assert.equal(session.state, 'paused');
    player.media.play = play;
    session.play();
    assert.equal(session.state, 'playing');
    await session.stop();
  });

  test('that is left while it is under way loads nothing', async () => {
    const { service, session, player } = await open();
    const { promise, answer } = later();
    service.plan(PREPARE, () => promise);
    const started = session.start('open');
    await settle();
    const left = session.stop();
    answer({ body: { playlist: 'p', heartbeat: 'http://service.test/api/playback/v1/heartbeat', heartbeatInterval: 10, headers: { 'Service-Play-Session': 's' } } });
    await Promise.all([started, left]);
    await settle();
    assert.equal(player.loads.length, 0);
    assert.equal(service.count(BEAT), 0);
    assert.equal(session.state, 'ended');
  });

  test('of another title ends the one before', async () => {
    const { service, session } = await open();
    await session.start('open');
    await session.start('news');
    assert.equal(service.count(END), 1);
    assert.equal(session.assetId, 'news');
    await session.stop();
  });

  test('of two titles while the one before still ends plays the last one only, and none that was stopped', async () => {
    const { service, session, player } = await open();
    await session.start('open');
    const slow = () => new Promise((done) => setTimeout(() => done({ status: 204 }), 4_000));
    service.plan(END, slow);
    const started = [session.start('news'), session.start('blackout')];
    await settle();
    await pass(6);
    await Promise.all(started);
    assert.equal(session.assetId, 'blackout');
    assert.equal(player.loads.length, 2);
    assert.equal(service.count(PREPARE), 2);
    service.plan(END, slow);
    const begun = session.start('open');
    await settle();
    const stopped = session.stop();
    await pass(6);
    await Promise.all([begun, stopped]);
    assert.equal(session.state, 'ended');
    assert.equal(service.count(PREPARE), 2);
  });

  test('of a broadcast that is over plays by its Unix time', async () => {
    const { service, session } = await open({ live: false });
    service.always('GET broadcasts', { body: { old: { id: 'old', start: 1_795_883_400, streamStart: 1_795_883_390 } } });
    await session.start('old', { position: 60 });
    await pass(11);
    assert.equal(service.last(BEAT).headers['Service-Play-Timestamp'], String(1_795_883_390 + 70));
    await session.stop();
  });

  test('whose license is refused shows the words of the service, and is not repeated', async () => {
    const { service, session, player } = await open();
    player.plays = false;
    await session.start('open');
    const { playerError } = await import('../../data/client/drm.js');
    player.events.failed(playerError('a code of the player', { status: 403, text: JSON.stringify(refused(403, 'LICENSE_REFUSED').body) }));
    await settle();
    assert.equal(session.error.userMessage, 'LICENSE_REFUSED for viewers');
    assert.equal(service.count(PREPARE), 1);
  });
});

describe('a time shift', () => {
  beforeEach(stopTheClock);
  afterEach(startTheClock);

  test('into another program asks for its entitlement first, within the bounds of offsets', async () => {
    const { service, session } = await open();
    await session.start('open');
    await pass(3);
    await session.seek(service.now() - 7200);
    const { query, headers } = service.last(ASK);
    assert.ok(Math.abs(Number(new URLSearchParams(query).get('offset')) + 7200) <= 1, query);
    assert.equal(headers['Service-Play-Session'], 's1');
    await session.seek(service.now() - 100_000);
    assert.equal(new URLSearchParams(service.last(ASK).query).get('offset'), '-86400');
    await session.stop();
  });

  test('within the program asks nothing, and is reported by one heartbeat at once', async () => {
    const { service, session, seconds } = await open();
    await session.start('open');
    await pass(15);
    await session.seek(session.position - 5);
    await session.seek(session.position - 5);
    await pass(5);
    assert.equal(service.count(ASK), 1);
    const [, , third, ...more] = seconds(BEAT);
    assert.ok(third >= 15 && third <= 16, `${third}`);
    assert.deepEqual(more, []);
    await session.stop();
  });

  test('that is refused stops the picture, and the live point brings it back', async () => {
    const { service, session } = await open();
    await session.start('open');
    service.plan(ASK, refused(403, 'NOT_AVAILABLE'));
    await session.seek(service.now() - 7200);
    assert.equal(session.state, 'held');
    await session.goLive();
    assert.equal(session.state, 'playing');
    await session.stop();
  });
});

describe('24 hours of play', () => {
  beforeEach(stopTheClock);
  afterEach(startTheClock);

  test('leave nothing behind', async () => {
    const { service, session, player, client } = await open();
    await session.start('open');
    const listeners = player.media.listeners;
    const original = service.fetch;
    assert.ok(original);
    for (let hour = 0; hour < 24; hour += 1) {
      await pass(3600, 10);
      assert.equal(session.state, 'playing');
      assert.equal(player.media.listeners, listeners);
      assert.ok(client.telemetry.waiting < 10);
      service.calls.splice(0, service.calls.length - 1000);
    }
    await session.stop();
    assert.equal(player.media.listeners, 0);
    client.close();
    const before = service.calls.length;
    await pass(3600, 60);
    assert.equal(service.calls.length, before, 'a timer is left');
  });
});

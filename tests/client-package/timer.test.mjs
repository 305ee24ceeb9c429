// The timer of heartbeats, with a worker that the test plays: Node.js has none.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

let workers, after;

beforeEach(async () => {
  workers = [];
  globalThis.document = {};
  globalThis.Worker = class {
    sent = [];
    constructor() {
      workers.push(this);
    }
    postMessage(message) {
      this.sent.push(message);
    }
  };
  mock.timers.enable({ apis: ['setTimeout'] });
  ({ after } = await import(`../../data/client/timer.js?${Math.random()}`));
});

afterEach(() => {
  mock.timers.reset();
  delete globalThis.Worker;
  delete globalThis.document;
});

test('a worker that starts late, or never, delays no timer', () => {
  let runs = 0;
  after(7, () => (runs += 1));
  mock.timers.tick(7_000);
  assert.equal(runs, 1);
  const [{ sent, onmessage }] = workers;
  onmessage({ data: sent[0].id });
  assert.equal(runs, 1, 'the worker is late, and runs nothing twice');
});

test('the worker keeps time where the page is slowed', () => {
  let runs = 0;
  after(7, () => (runs += 1));
  const [{ sent, onmessage }] = workers;
  assert.equal(sent[0].wait, 7_000);
  onmessage({ data: sent[0].id });
  mock.timers.tick(60_000);
  assert.equal(runs, 1);
});

test('a timer that is stopped runs neither way, and timers go on where the worker has failed', () => {
  let runs = 0;
  const stop = after(7, () => (runs += 1));
  stop();
  const [{ sent, onmessage, onerror }] = workers;
  assert.deepEqual(sent[1], { id: sent[0].id });
  onmessage({ data: sent[0].id });
  mock.timers.tick(7_000);
  assert.equal(runs, 0);
  after(1, () => (runs += 1));
  onerror();
  mock.timers.tick(1_000);
  assert.equal(runs, 1);
});

// Time that passes as fast as the test wants. `Date`, timers and `performance.now` go together.
import { mock } from 'node:test';

export const BEGIN = Date.UTC(2026, 10, 28, 12, 0, 0);

/** Lets what is ready run: promises, and answers of the fake service. */
export async function settle() {
  for (let i = 0; i < 3; i += 1) await new Promise((done) => setImmediate(done));
}

export function stopTheClock() {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'], now: BEGIN });
  mock.method(performance, 'now', () => Date.now() - BEGIN);
  mock.method(Math, 'random', () => 0);
}

export function startTheClock() {
  mock.timers.reset();
  mock.restoreAll();
}

/** Lets time pass in steps, with what happens in each of them. */
export async function pass(seconds, step = 1) {
  for (let left = seconds; left > 0; left -= step) {
    mock.timers.tick(Math.min(step, left) * 1000);
    await settle();
  }
}

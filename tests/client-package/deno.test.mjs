// @playgate/client in Deno, against the real service. Deno allows the app its one address and nothing else.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startAppliance } from '../browser/lib/appliance.mjs';

const HERE = import.meta.dirname;
const TIMEOUT_MS = 120_000;

/** The program, of npm or of the machine; null if it does not run. */
function findDeno() {
  const runs = (program) => {
    try {
      return /^deno /.test(execFileSync(program, ['--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
    } catch {
      return false;
    }
  };
  return [path.join(HERE, 'node_modules/.bin/deno'), 'deno'].find(runs) ?? null;
}

const deno = findDeno();

test('Deno signs up, logs in, reads the schedule and plays', { skip: !deno && 'Deno is not installed', timeout: TIMEOUT_MS }, async () => {
  const appliance = await startAppliance();
  const folder = await mkdtemp(path.join(tmpdir(), 'playgate-deno-'));
  try {
    const { baseUrl, partnerToken, livestreams } = appliance.demo;
    const rights = ['--no-prompt', `--allow-net=${new URL(baseUrl).host}`, '--no-remote', '--no-npm', '--no-lock', '--no-config'];
    const app = [path.join(HERE, 'lib/deno-app.mjs'), baseUrl, partnerToken, livestreams.open];
    const env = { ...process.env, DENO_DIR: folder, NO_COLOR: '1', DENO_NO_UPDATE_CHECK: '1' };
    const { stdout } = await promisify(execFile)(deno, ['run', ...rights, ...app], { env });
    const said = JSON.parse(stdout);
    assert.equal(said.loggedIn.userId, said.userId);
    assert.ok(said.live[livestreams.open].current.title, stdout);
    assert.match(said.entitled.token, /^pge_/);
    assert.equal(said.state, 'playing', said.error);
    assert.deepEqual(said.beats.map(({ interval }) => interval), [10, 10]);
    assert.equal(said.reason, 'stopped');
    assert.equal(said.left, 0);
  } finally {
    await rm(folder, { recursive: true, force: true });
    await appliance.stop();
  }
});

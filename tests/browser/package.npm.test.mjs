// The packages as npm delivers them: packed, installed into a fresh project, compiled with its types, bundled, and played.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startAppliance } from './lib/appliance.mjs';
import { launch, skip } from './lib/browser.mjs';

const ROOT = path.resolve(import.meta.dirname, '../..');
const TOOLS = path.join(ROOT, 'tests/client-package/node_modules/.bin');
const run = promisify(execFile);

/** What a newcomer writes. */
const APP = `
import shaka from 'shaka-player';
import { PlaygateClient, PlaygateError, type PlaybackSession } from '@playgate/client';
import { PlaygatePlayer } from '@playgate/player';

PlaygatePlayer.shaka = shaka;
const settings = new URLSearchParams(location.search);
const client = new PlaygateClient({ baseUrl: settings.get('base')!, partnerToken: settings.get('token')! });
const player = document.querySelector<PlaygatePlayer>('playgate-player')!;
try {
  await client.logIn(settings.get('identity')!, settings.get('key')!);
  player.client = client;
  player.setAttribute('asset', 'film-open');
} catch (error) {
  if (!(error instanceof PlaygateError)) throw error;
  document.title = error.userMessage;
}
const session: PlaybackSession | null = player.session;
console.log(session?.state);
`;

let folder, appliance, browser, server;

before(async () => {
  if (skip) return;
  folder = await mkdtemp(path.join(tmpdir(), 'playgate-npm-'));
  appliance = await startAppliance();
  browser = await launch();
});

after(async () => {
  await browser?.close();
  server?.close();
  await appliance?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
});

test('a fresh project installs the packages, compiles against their types, and plays', { skip, timeout: 300_000 }, async () => {
  const { stdout } = await run(path.join(ROOT, 'packaging/npm'), [path.join(folder, 'packed')]);
  const tarballs = stdout.trim().split('\n');
  assert.deepEqual(tarballs.map((file) => path.basename(file).replace(/-[\d.]+tgz$/, '')), ['playgate-client', 'playgate-player']);
  await writeFile(path.join(folder, 'package.json'), '{"private": true, "type": "module"}');
  // Shaka Player, a peer, is the one of the tests: an install from the tarballs needs no registry.
  await run('npm', ['install', '--ignore-scripts', '--legacy-peer-deps', '--no-audit', '--no-fund', '--offline', ...tarballs], { cwd: folder });
  await symlink(path.join(import.meta.dirname, 'node_modules/shaka-player'), path.join(folder, 'node_modules/shaka-player'));
  await writeFile(path.join(folder, 'app.ts'), APP);
  await writeFile(path.join(folder, 'shaka.d.ts'), "declare module 'shaka-player';\n");
  const options = ['--strict', '--noEmit', '--target', 'es2022', '--module', 'es2022', '--moduleResolution', 'bundler', '--lib', 'es2022,dom,dom.iterable'];
  await run(path.join(TOOLS, 'tsc'), [...options, 'app.ts', 'shaka.d.ts'], { cwd: folder }).catch(({ stdout: said }) => assert.fail(said));
  await run(path.join(TOOLS, 'esbuild'), ['app.ts', '--bundle', '--format=esm', '--target=es2022', '--outfile=app.js'], { cwd: folder });
  const page = '<!doctype html><html lang="en"><title>App</title><playgate-player muted></playgate-player><script type="module" src="/app.js"></script>';
  const script = await readFile(path.join(folder, 'app.js'));
  server = createServer(({ url }, response) => {
    const isScript = url === '/app.js';
    response.writeHead(200, { 'Content-Type': isScript ? 'text/javascript' : 'text/html' }).end(isScript ? script : page);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { baseUrl, partnerToken, identity, accessKey } = appliance.demo;
  const query = new URLSearchParams({ base: baseUrl, token: partnerToken, identity, key: accessKey });
  const tab = await browser.newPage();
  await tab.goto(`http://127.0.0.1:${server.address().port}/?${query}`);
  await tab.waitForFunction(() => document.querySelector('playgate-player').video?.getVideoPlaybackQuality().totalVideoFrames > 10, null, { timeout: 60_000 });
  await tab.goto('about:blank');
});

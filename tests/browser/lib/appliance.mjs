// The product under test: starts the demo on free ports with a fresh data directory, and ends it.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

const TARGET = path.resolve(import.meta.dirname, '../../../target');
const READY_WITHIN_MS = 30_000; // generous: a debug build on a busy machine
const END_WITHIN_MS = 10_000;

function binary() {
  const candidates = process.env.PLAYGATE_BIN
    ? [process.env.PLAYGATE_BIN]
    : [path.join(TARGET, 'release/playgate'), path.join(TARGET, 'debug/playgate')];
  const found = candidates.find((file) => existsSync(file));
  if (!found) throw new Error(`no playgate binary at ${candidates.join(' or ')}: run cargo build, or set PLAYGATE_BIN`);
  return found;
}

/**
 * For a file whose tests play as one user. The stream of a page that was closed may count until it expires: on a busy machine
 * the page's last request, which ends it, can get lost.
 */
export const HIGH_PLAYBACK_LIMITS = {
  PLAYGATE_PLAYBACK_DEVICES: '40',
  PLAYGATE_PLAYBACK_STREAMS_TOTAL: '20',
  PLAYGATE_PLAYBACK_STREAMS_PER_ASSET: '20',
};

/**
 * Starts the demo, `settings` by the names of their environment variables, what has none as the text of a configuration
 * file; resolves with the members of its one line of JSON as `demo`, `operate`, which calls the operators' interface,
 * `command`, which runs a command over the same data, and `stop`.
 */
export async function startAppliance(settings = {}, config = '') {
  const program = binary();
  const folder = await mkdtemp(path.join(tmpdir(), 'playgate-browser-'));
  const file = path.join(folder, 'playgate.toml');
  await writeFile(file, config);
  const child = spawn(
    program,
    ['demo', '--config', file, '--json', '--listen', '127.0.0.1:0', '--data-dir', path.join(folder, 'data')],
    { env: { ...process.env, ...settings }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const killOnExit = () => child.kill('SIGKILL');
  process.once('exit', killOnExit);
  const ended = new Promise((done) => child.once('exit', (code, signal) => done(signal ?? code)));
  let diagnostics = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (diagnostics = (diagnostics + text).slice(-8_000)));

  const stop = async () => {
    const died = child.exitCode !== null || child.signalCode !== null;
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), END_WITHIN_MS);
    const how = await ended;
    clearTimeout(timer);
    process.removeListener('exit', killOnExit);
    await rm(folder, { recursive: true, force: true });
    if (died) throw new Error(`the appliance ended by itself (${how}):\n${diagnostics}`);
  };

  const timer = setTimeout(() => child.kill('SIGKILL'), READY_WITHIN_MS);
  try {
    const demo = JSON.parse(await firstLine(child.stdout));
    const command = (...words) => runCommand(program, [...words, '--data-dir', path.join(folder, 'data')]);
    return { demo, operate: (...call) => operate(demo, ...call), command, stop };
  } catch (error) {
    child.kill('SIGKILL');
    await stop().catch(() => {});
    throw new Error(`the demo did not print its line of JSON (${error.message}):\n${diagnostics}`);
  } finally {
    clearTimeout(timer);
  }
}

/** Starts a server without data; resolves with its `opsUrl` and `operatorToken`, `operate` and `stop` as above. */
export async function startEmpty() {
  const program = binary();
  const folder = await mkdtemp(path.join(tmpdir(), 'playgate-browser-'));
  const data = ['--data-dir', path.join(folder, 'data')];
  const added = await runCommand(program, ['operator', 'add', 'ann', '--role', 'admin', '--json', ...data]).ended;
  const operatorToken = JSON.parse(added.out).token;
  const child = spawn(program, ['serve', '--listen', '127.0.0.1:0', ...data], {
    env: { ...process.env, PLAYGATE_OPS_LISTEN: '127.0.0.1:0' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const killOnExit = () => child.kill('SIGKILL');
  process.once('exit', killOnExit);
  const ended = new Promise((done) => child.once('exit', done));
  const stop = async () => {
    child.kill('SIGTERM');
    const timer = setTimeout(killOnExit, END_WITHIN_MS);
    await ended;
    clearTimeout(timer);
    process.removeListener('exit', killOnExit);
    await rm(folder, { recursive: true, force: true });
  };
  let diagnostics = '';
  const address = new Promise((resolve, reject) => {
    child.stderr.setEncoding('utf8').on('data', (text) => {
      diagnostics += text;
      const ready = /"ops":"([^"]+)"/.exec(diagnostics);
      if (ready) resolve(ready[1]);
    });
    ended.then(() => reject(new Error(`the server ended:\n${diagnostics}`)));
  });
  const timer = setTimeout(killOnExit, READY_WITHIN_MS);
  const server = { opsUrl: `http://${await address.finally(() => clearTimeout(timer))}`, operatorToken };
  return { ...server, operate: (...call) => operate(server, ...call), stop };
}

async function operate({ opsUrl, operatorToken }, method, path, body) {
  const headers = { Authorization: `Bearer ${operatorToken}`, 'Content-Type': 'application/json' };
  const response = await fetch(new URL(path, opsUrl), { method, headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text && JSON.parse(text);
}

/** Starts a command; `said(words)` waits until it has said this on standard error, `ended` for its end. */
function runCommand(program, words) {
  const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (err += text));
  const ended = new Promise((done) => child.once('close', (code) => done({ code, out, err })));
  const said = (text) =>
    new Promise((done, fail) => {
      const look = () => err.includes(text) && done();
      child.stderr.on('data', look);
      ended.then(() => fail(new Error(`it did not say “${text}”: ${err}`)));
      look();
    });
  return { said, ended };
}

async function firstLine(stream) {
  let text = '';
  stream.setEncoding('utf8');
  return new Promise((resolve, reject) => {
    stream.on('data', (chunk) => {
      text += chunk;
      if (text.includes('\n')) resolve(text.slice(0, text.indexOf('\n')));
    });
    stream.once('end', () => reject(new Error('standard output ended')));
  });
}

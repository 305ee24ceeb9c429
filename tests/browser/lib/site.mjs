// The partner's own web site: serves the page, and the players as npm delivers them. Its port differs from the
// appliance's, so that every call of the page crosses origins.
import { createServer } from 'node:http';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';

const HERE = path.resolve(import.meta.dirname, '..');
const FILES = new Map([
  ['/', 'page/index.html'],
  ['/client.js', 'page/client.js'],
  ['/pin.js', 'page/pin.js'],
  ['/service.js', 'page/service.js'],
  ['/reports.js', 'page/reports.js'],
  ['/stopwatch.js', 'page/stopwatch.js'],
  ['/players/failure.js', 'page/players/failure.js'],
  ['/players/shaka.js', 'page/players/shaka.js'],
  ['/players/dashjs.js', 'page/players/dashjs.js'],
  ['/players/hlsjs.js', 'page/players/hlsjs.js'],
  ['/players/rxplayer.js', 'page/players/rxplayer.js'],
  ['/players/videojs.js', 'page/players/videojs.js'],
  ['/package/', 'package/index.html'],
  ['/package/app.js', 'package/app.js'],
  ['/package/player.html', 'package/player.html'],
  ['/npm/video.min.js', 'node_modules/video.js/dist/video.min.js'],
  ['/npm/shaka-player.compiled.js', 'node_modules/shaka-player/dist/shaka-player.compiled.js'],
  ['/npm/shaka-player.compiled.debug.js', 'node_modules/shaka-player/dist/shaka-player.compiled.debug.js'],
  ['/npm/dash.all.min.js', 'node_modules/dashjs/dist/modern/umd/dash.all.min.js'],
  ['/npm/hls.min.js', 'node_modules/hls.js/dist/hls.min.js'],
]);

const RX = '/npm/rx-player/';
const RX_FILES = path.join(HERE, 'node_modules/rx-player/dist/es2017');

/** The file of a module of RxPlayer, or where it is: its modules leave `.js` and `/index.js` out. */
async function rxModule(url) {
  const name = path.posix.normalize(url.slice(RX.length)); // one of them has two slashes
  const isFile = (file) => stat(path.join(RX_FILES, file)).then((found) => found.isFile(), () => false);
  if (name.endsWith('.js') && (await isFile(name))) return { file: path.join(RX_FILES, name) };
  for (const ending of ['.js', '/index.js']) {
    if (await isFile(name + ending)) return { moved: RX + name + ending };
  }
  return {};
}

const PACKAGES = '/client/';
const PACKAGE_FILES = path.resolve(HERE, '../../data/client');

/** The file of an address, or where it is. */
async function find(url) {
  const name = new URL(url, 'http://site').pathname;
  if (name.startsWith(RX)) return rxModule(url);
  if (name.startsWith(PACKAGES)) return { file: path.join(PACKAGE_FILES, path.basename(name)) };
  return { file: FILES.get(name) };
}

/** Resolves with the site's `address` and `stop`. */
export async function startSite() {
  const server = createServer(async (request, response) => {
    const { file, moved } = await find(request.url);
    if (moved) return void response.writeHead(302, { Location: moved }).end();
    if (!file) return void response.writeHead(404).end();
    const type = file.endsWith('.html') ? 'text/html' : 'text/javascript';
    const body = await readFile(path.resolve(HERE, file));
    response.writeHead(200, { 'Content-Type': `${type}; charset=utf-8` }).end(body);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return {
    address: `http://127.0.0.1:${server.address().port}/`,
    stop: () => {
      server.closeAllConnections();
      return new Promise((done) => server.close(done));
    },
  };
}

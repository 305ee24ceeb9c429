// The partner's own web site: serves the page, and the players as npm delivers them. Its port differs from the
// appliance's, so that every call of the page crosses origins.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
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
  ['/npm/shaka-player.compiled.js', 'node_modules/shaka-player/dist/shaka-player.compiled.js'],
  ['/npm/shaka-player.compiled.debug.js', 'node_modules/shaka-player/dist/shaka-player.compiled.debug.js'],
  ['/npm/dash.all.min.js', 'node_modules/dashjs/dist/modern/umd/dash.all.min.js'],
  ['/npm/hls.min.js', 'node_modules/hls.js/dist/hls.min.js'],
]);

/** Resolves with the site's `address` and `stop`. */
export async function startSite() {
  const server = createServer(async (request, response) => {
    const file = FILES.get(request.url);
    if (!file) return void response.writeHead(404).end();
    const type = file.endsWith('.html') ? 'text/html' : 'text/javascript';
    const body = await readFile(path.join(HERE, file));
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

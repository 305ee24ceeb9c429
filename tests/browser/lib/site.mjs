// The partner's own web site: serves the page, and Shaka Player as npm delivers it. Its port differs from the
// appliance's, so that every call of the page crosses origins.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import path from 'node:path';

const HERE = path.resolve(import.meta.dirname, '..');
const FILES = new Map([
  ['/', ['text/html', 'page/index.html']],
  ['/client.js', ['text/javascript', 'page/client.js']],
  ['/shaka-player/shaka-player.compiled.js', ['text/javascript', 'node_modules/shaka-player/dist/shaka-player.compiled.js']],
]);

/** Resolves with the site's `address` and `stop`. */
export async function startSite() {
  const server = createServer(async (request, response) => {
    const [type, file] = FILES.get(request.url) ?? [];
    if (!file) return void response.writeHead(404).end();
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

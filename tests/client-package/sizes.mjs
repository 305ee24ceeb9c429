// What the packages weigh in a page, as a bundler delivers them: minified, gzip. Fails above the limits.
import { build } from 'esbuild';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

const FOLDER = path.resolve(import.meta.dirname, '../../data/client');
/** Bytes. An adapter is what it adds to the client. */
const LIMITS = {
  'playgate-client.js': 12_000,
  'adapter-shaka.js': 2_000,
  'adapter-dash.js': 2_000,
  'adapter-hls.js': 2_000,
  'adapter-video.js': 2_000,
  'adapter-builtin.js': 7_000,
  'playgate-player.js': 30_000,
};

let above = false;
for (const [name, limit] of Object.entries(LIMITS)) {
  if (!existsSync(path.join(FOLDER, name))) continue;
  const { outputFiles } = await build({
    entryPoints: [path.join(FOLDER, name)],
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    write: false,
    // Pages without Shaka Player load the built-in player, and no others.
    external: name.startsWith('adapter-') ? ['./error.js'] : ['./adapter-builtin.js'],
  });
  const bytes = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  above ||= bytes > limit;
  console.log(`${name.padEnd(20)} ${String(bytes).padStart(6)} of ${limit} bytes${bytes > limit ? '  TOO LARGE' : ''}`);
}
process.exit(above ? 1 : 0);

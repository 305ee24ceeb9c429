// Guides of the tests' own making, brought in as an operator would, or fetched.
import { createServer } from 'node:http';

/** Gives a livestream these programs: titles with their starts and stops in Unix seconds, and from what age on. */
export function importGuide(appliance, livestream, programs) {
  const broadcasts = programs.map(([title, start, stop, pgAge = 0]) => ({
    id: `${livestream}-${start}-${pgAge}`,
    title,
    start,
    stop,
    pgAge,
  }));
  return appliance.operate('POST', '/admin/v1/epg/import?accept=true', { [livestream]: broadcasts });
}

/** Lets what is called “Match: …” on a livestream have no live rights; `blackout` is so in the demo. */
export function forbidMatches(appliance, livestream) {
  return appliance.operate('POST', '/admin/v1/rules', { livestream, title: 'Match: *', live: false, catchup: false });
}

/** The time as the appliance has it, in whole seconds. */
export async function serverTime(appliance) {
  return (await appliance.operate('GET', '/admin/v1/clock')).now;
}

/**
 * A place from where guides are fetched: `address`, how many hours with `programmes` of the livestream `guided` it has
 * at the time, `null` for none at all, and `stop`.
 */
export async function startGuides() {
  const begin = Math.ceil(Date.now() / 3_600_000) * 3_600_000;
  const instant = (hour) => new Date(begin + hour * 3_600_000).toISOString().replace(/[-:T]|\..*/g, '') + ' +0000';
  const programme = (_, i) =>
    `<programme channel="guided" start="${instant(i)}" stop="${instant(i + 1)}"><title>Hour ${i}</title></programme>`;
  const place = { programmes: 40 };
  const server = createServer((_, response) => {
    if (place.programmes === null) return void response.writeHead(404).end();
    const hours = Array.from({ length: place.programmes }, programme).join('');
    response.end(`<tv><channel id="guided"><display-name>Guided</display-name></channel>${hours}</tv>`);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  place.address = `http://127.0.0.1:${server.address().port}/guide.xml`;
  place.stop = () => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  };
  return place;
}

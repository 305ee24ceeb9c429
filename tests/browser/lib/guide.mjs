// Guides of the tests' own making, brought in as an operator would.

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

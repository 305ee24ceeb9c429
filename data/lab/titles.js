// What can be played: films, livestreams, and finished broadcasts.

const HOUR = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZoneName: 'short' };
const time = (seconds, options) => new Date(seconds * 1000).toLocaleTimeString(undefined, options);

/** The time of day with the zone, of 24 hours in each language. */
export const hour = (seconds) => time(seconds, HOUR);
export const clock = (seconds) => time(seconds, { ...HOUR, second: '2-digit' });

const CATCHUP_EACH = 3; // newest finished broadcasts of a livestream
const age = (years) => (years === undefined ? 'not rated' : years === 0 ? 'all ages' : `from ${years}`);
const drm = ({ encrypted }) => (encrypted ? 'encrypted' : 'in the clear');
const playable = ({ protocols }) => protocols.includes('dash');

/** Finished broadcasts that can be caught up on, the newest of each livestream. */
async function catchup(guide, livestreams, now) {
  if (!livestreams.length) return [];
  const days = [0, 1].map((back) => new Date((now - back * 86_400) * 1000).toISOString().slice(0, 10));
  const answers = await Promise.all(days.map((date) => guide.day(date, livestreams.map(({ id }) => id))));
  return livestreams.flatMap(({ id, name }) =>
    answers
      .flatMap((answer) => answer[id] ?? [])
      .filter(({ stop, catchupInterval }) => stop < now && catchupInterval?.to > now)
      .sort((a, b) => b.start - a.start)
      .slice(0, CATCHUP_EACH)
      .map((one) => ({ assetId: one.id, name: one.title, note: `${name}, ${hour(one.start)}` })),
  );
}

/** Titles with `assetId`, `name`, `note`; channels with the programme `now`, films with `pgAge`. */
export async function findTitles({ guide }) {
  const [livestreams, assets] = await Promise.all([guide.livestreams(), guide.assets()]);
  const channels = livestreams.filter(playable);
  const live = channels.length ? await guide.live(channels.map(({ id }) => id)) : {};
  return {
    films: assets.filter(playable).map((one) => ({ assetId: one.id, name: one.title, note: `${drm(one)}, ${age(one.pgAge)}`, pgAge: one.pgAge, film: true })),
    channels: channels.map((one) => {
      const on = live[one.id]?.current;
      return { assetId: one.id, name: one.name, note: `${on?.title ?? 'no programme'}, ${drm(one)}`, now: on };
    }),
    finished: await catchup(guide, channels.filter(({ catchupDays }) => catchupDays), Date.now() / 1000),
  };
}

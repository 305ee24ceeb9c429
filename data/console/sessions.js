// Active playback sessions, of all users or of one.
import { at, call, get, query } from './api.js';
import { absent, brief, clipped, el, quiet, second, table } from './dom.js';
import { number, t } from './i18n.js';
import { list } from './list.js';
import { logo, person, watched, watchedText } from './names.js';
import { action } from './panel.js';

const EVERY = 15; // seconds
const MOST = 1_000; // the API's limit

const bitrate = (bits) => `${number(bits / 1e6, { maximumFractionDigits: 1 })} Mbit/s`;
const resolution = ({ resolutionWidth: width, resolutionHeight: height }) => `${width}×${height}`;

const ids = ({ assetId, broadcastId }) => [assetId, broadcastId].filter(Boolean).join(' ');
const device = (one) => `${one.deviceModel} ${one.devicePlatform} ${one.deviceType}`;
const details = (one) => [device(one), `${one.drm} ${one.protocol}`, one.deviceId].join(' · ');

/** Bitrate and height of the picture; its whole size as tooltip. */
const quality = (one) =>
  one.bitrate ? el('span.calm', { title: resolution(one) }, `${bitrate(one.bitrate)} ${one.resolutionHeight}p`) : absent();

const end = ({ sessionId }) => call('DELETE', at`sessions/${sessionId}`);

const channel = ({ livestreamId, livestreamName }) =>
  livestreamName ? el('span.named', { title: livestreamId }, logo(livestreamId, livestreamName), el('span.clip', livestreamName)) : absent();

const programme = (one) => el('span.clip', { title: ids(one) }, one.title ?? (one.livestreamName ? absent() : one.assetId));

const COLUMNS = () => [
  { head: t`User`, id: 'user', grow: 2, value: ({ email, userId }) => email ?? userId, cell: person },
  { head: t`Channel`, id: 'channel', grow: 2, value: ({ livestreamName }) => livestreamName ?? '', cell: channel },
  { head: t`Programme`, id: 'asset', grow: 1, value: (one) => one.title ?? one.assetId, cell: programme },
  {
    head: t`Device`,
    id: 'device',
    grow: 1,
    value: ({ deviceModel }) => deviceModel,
    cell: (one) => clipped(details(one), one.deviceModel, ' ', quiet(`${one.devicePlatform} ${one.deviceType}`)),
    csv: device,
  },
  { head: 'DRM', csv: ({ drm, protocol }) => `${drm} ${protocol}` },
  { head: t`Quality`, id: 'quality', value: ({ bitrate: bits }) => bits ?? 0, cell: quality, csv: (one) => (one.bitrate ? `${bitrate(one.bitrate)} ${resolution(one)}` : '') },
  { head: t`Started`, id: 'since', value: ({ since }) => since, cell: ({ since }) => brief(since) },
  { head: t`Ids`, csv: ids },
  { head: t`Heartbeat`, id: 'seen', value: ({ lastSeen }) => lastSeen, cell: ({ lastSeen }) => second(lastSeen) },
  { head: '', cell: ({ sessionId }) => el('a', { href: `#/requests${query({ session: sessionId })}` }, t`Requests`) },
];

function ender(one, self) {
  const name = watchedText(one);
  const work = async () => {
    await end(one);
    await self.done(t`Ended the session playing “${name}”.`);
  };
  return action(t`End`, work, {
    ask: t`End this session? “${name}” stops on ${one.deviceModel} at its next heartbeat.`,
    label: t`End ${name} on ${one.deviceModel}`,
  });
}

/** The active playback sessions of a user, in a panel. */
export function playing(shown, self) {
  const others = COLUMNS().filter(({ id, cell }) => cell && ['device', 'since', undefined].includes(id));
  const columns = [{ head: t`Programme`, grow: 3, cell: watched }, ...others];
  const rows = shown.map((one) => [...columns.map(({ cell }) => cell(one)), ender(one, self)]);
  return table([...columns, ''], rows, t`No playback sessions.`);
}

export function sessions({ search, head }) {
  let known = [];
  const asset = search.get('asset');
  if (asset) head(t`Who watches ${asset}`, { back: [t`All playback sessions`, '#/sessions'] });
  return [
    list(
      '',
      async () => {
        known = await get(`sessions${query({ asset })}`);
        const [one] = known;
        if (asset && one) head(t`Who watches ${one.livestreamName ?? one.title ?? asset}`, { back: [t`All playback sessions`, '#/sessions'] });
        return known;
      },
      {
        search,
        keep: { asset },
        every: EVERY,
        zoned: true,
        csv: 'sessions',
        key: ({ sessionId }) => sessionId,
        none: t`No playback sessions.`,
        sort: '-since',
        matches: (one) => [one.email, one.userId, one.title, one.livestreamName, ids(one), one.deviceModel, one.deviceId],
        filters: [
          {
            name: 'drm',
            label: 'DRM',
            options: ['widevine', 'playready', 'fairplay', 'clearkey'].map((one) => [one, one]),
            test: ({ drm }, value) => drm === value,
          },
        ],
        columns: COLUMNS(),
        bulk: [
          {
            verb: t`End`,
            danger: true,
            ask: (number) => t`End ${number} sessions? Playback stops at their next heartbeat.`,
            work: end,
          },
        ],
        more: () => known.length === MOST && el('p.quiet', t`Showing the oldest ${MOST} sessions only.`),
      },
    ),
  ];
}

// Active playback sessions, of all users or of one.
import { at, call, get, query } from './api.js';
import { absent, clipped, el, exact, link, quiet, second, table } from './dom.js';
import { number, t } from './i18n.js';
import { list } from './list.js';
import { action } from './panel.js';

const EVERY = 15; // seconds
const MOST = 1_000; // the API's limit

const bitrate = (bits) => `${number(bits / 1e6, { maximumFractionDigits: 1 })} Mbit/s`;
const resolution = ({ resolutionWidth: width, resolutionHeight: height }) => `${width}×${height}`;

const asset = ({ assetId, broadcastId }) => [assetId, broadcastId].filter(Boolean).join(' ');
const device = (one) => `${one.deviceModel} ${one.devicePlatform} ${one.deviceType}`;

/** Bitrate and height of the picture; its whole size as tooltip. */
const quality = (one) =>
  one.bitrate ? el('span.calm', { title: resolution(one) }, `${bitrate(one.bitrate)} ${one.resolutionHeight}p`) : absent();

const end = ({ sessionId }) => call('DELETE', at`sessions/${sessionId}`);

const COLUMNS = () => [
  {
    head: t`User`,
    id: 'user',
    value: ({ email, userId }) => email ?? userId,
    cell: ({ email, userId }) => clipped(email ?? userId, link(email ?? userId, 'users', userId)),
  },
  {
    head: t`Asset`,
    id: 'asset',
    value: ({ assetId }) => assetId,
    cell: (one) => el('div.short', clipped(asset(one), el('code', one.assetId), ' ', quiet(one.broadcastId ?? ''))),
    csv: asset,
  },
  {
    head: t`Device`,
    id: 'device',
    value: ({ deviceModel }) => deviceModel,
    cell: (one) => clipped(device(one), one.deviceModel, ' ', quiet(`${one.devicePlatform} ${one.deviceType}`)),
    csv: device,
  },
  { head: 'DRM', id: 'drm', value: ({ drm, protocol }) => `${drm} ${protocol}`, cell: (one) => el('span.calm', `${one.drm} ${one.protocol}`) },
  { head: t`Quality`, id: 'quality', value: ({ bitrate: bits }) => bits ?? 0, cell: quality, csv: (one) => (one.bitrate ? `${bitrate(one.bitrate)} ${resolution(one)}` : '') },
  { head: t`Started`, id: 'since', value: ({ since }) => since, cell: ({ since }) => exact(since) },
  { head: t`Heartbeat`, id: 'seen', value: ({ lastSeen }) => lastSeen, cell: ({ lastSeen }) => second(lastSeen) },
  { head: t`Requests`, cell: ({ sessionId }) => el('a', { href: `#/requests${query({ session: sessionId })}` }, t`Requests`) },
];

function ender(one, self) {
  const work = async () => {
    await end(one);
    await self.done(t`Ended the session playing “${one.assetId}”.`);
  };
  return action(t`End`, work, {
    ask: t`End this session? “${one.assetId}” stops on ${one.deviceModel} at its next heartbeat.`,
    label: t`End ${one.assetId} on ${one.deviceModel}`,
  });
}

/** The active playback sessions of a user, in a panel. */
export async function playing(self, user) {
  const shown = (await get('sessions')).filter(({ userId }) => userId === user);
  const columns = COLUMNS().slice(1);
  const rows = shown.map((one) => [...columns.map(({ cell }) => cell(one)), ender(one, self)]);
  return table([...columns.map(({ head }) => head), ''], rows, t`No playback sessions.`);
}

export function sessions({ search }) {
  let known = [];
  return [
    list(
      '',
      async () => {
        known = await get('sessions');
        return known;
      },
      {
        search,
        every: EVERY,
        csv: 'sessions',
        key: ({ sessionId }) => sessionId,
        none: t`No playback sessions.`,
        sort: '-since',
        matches: (one) => [one.email, one.userId, one.assetId, one.broadcastId, one.deviceModel, one.deviceId],
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

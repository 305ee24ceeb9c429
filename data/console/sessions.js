// Active playback sessions, of all users or of one.
import { at, call, get } from './api.js';
import { clock, el, link, quiet, table, when } from './dom.js';
import { action, panel } from './panel.js';

const EVERY = 15; // seconds
const MOST = 1_000; // the API's limit

/** Renders the active playback sessions of a user, or of all users, in a panel. */
export async function playing(self, user) {
  const list = await get('sessions');
  const shown = list.filter(({ userId }) => !user || userId === user);
  const end = async ({ sessionId, assetId }) => {
    await call('DELETE', at`sessions/${sessionId}`);
    await self.done(`Ended the session playing “${assetId}”.`);
  };
  const rows = shown.map((one) => [
    ...(user ? [] : [link(one.email ?? one.userId, 'users', one.userId)]),
    [el('code', one.assetId), one.broadcastId && [el('br'), quiet(one.broadcastId)]],
    [one.deviceModel, el('br'), quiet(`${one.devicePlatform} ${one.deviceType}`)],
    `${one.drm} ${one.protocol}`,
    one.bitrate
      ? `${(one.bitrate / 1e6).toFixed(1)} Mbit/s ${one.resolutionWidth}×${one.resolutionHeight}`
      : quiet('–'),
    when(one.since),
    clock(one.lastSeen),
    action('End', () => end(one), {
      ask: `End this session? “${one.assetId}” stops on ${one.deviceModel} at its next heartbeat.`,
      label: `End ${one.assetId} on ${one.deviceModel}`,
    }),
  ]);
  const heads = ['Asset', 'Device', 'DRM', 'Quality', 'Started', 'Last heartbeat', ''];
  return [
    table(user ? heads : ['User', ...heads], rows, 'No playback sessions.'),
    list.length === MOST && el('p.quiet', `Showing the oldest ${MOST} sessions only.`),
  ];
}

export const sessions = () => [panel('', (self) => playing(self), { every: EVERY })];

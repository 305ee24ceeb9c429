// Situations that a client has to master, brought about through the interface itself.

const BEFORE = 8; // seconds that play before the programme without live rights begins

/**
 * The buttons: `name`, `id`, a `note` that says what will be seen, `missing` if the catalogue has nothing for it, `run`.
 * `play(title, offset)` starts a title and resolves with the session once it plays; `logIn()` with a second client of the user.
 */
export function situations({ player, play, logIn, films, channels }) {
  const rated = films.find(({ pgAge }) => pgAge >= 18);
  const barred = channels.find(({ now }) => now && !now.liveAvailable);
  const easy = channels.find(({ now }) => now?.liveAvailable && (now.pgAge ?? 18) < 7) ?? channels[0];
  const any = easy ? undefined : 'The catalogue has no livestream in DASH.';
  const playing = () => (player.session?.state === 'playing' ? player.session : play(easy));
  return [
    {
      name: 'PIN',
      id: 'pin',
      note: 'Starts a film rated 18. The entitlement is refused until the PIN is entered.',
      missing: rated ? undefined : 'The catalogue has no film rated 18 or above.',
      run: () => play(rated),
    },
    {
      name: 'No live rights (552)',
      id: '552',
      note: `Plays ${barred?.name ?? ''} up to a programme without live rights. Its heartbeat is answered with 552, and the picture stops.`,
      missing: barred ? undefined : 'No programme without live rights is on now.',
      run: () => play(barred, Math.floor(barred.now.start - Date.now() / 1000) - BEFORE),
    },
    {
      name: 'Displace',
      id: 'displace',
      note: 'Starts the same title a second time on this device. The next heartbeat or media request of the first is answered with 410.',
      missing: any,
      run: async () => displace(player.client, await playing()),
    },
    {
      name: 'Expired token',
      id: 'expired',
      note: 'Takes the player its token. The next heartbeat is answered with 401; the player logs in once and goes on.',
      missing: any,
      run: async () => expire(player.client.user, await logIn(), await playing(), player.video),
    },
  ];
}

/** A preflight of the same device takes over its session. The new one is ended at once. */
async function displace({ playback }, { assetId, prepared: { drm, protocol } }) {
  const { token } = await playback.entitlement(assetId);
  await playback.end(await playback.preflight(assetId, { token, drm, protocol }));
}

/** Ends the log-in whose token the player holds. A session ends with its log-in, so a heartbeat of another takes it over first. */
async function expire(user, other, { prepared, position }, { videoWidth, videoHeight }) {
  await other.playback.heartbeat(prepared, { position, bitrate: 0, width: videoWidth, height: videoHeight });
  await other.account.endSession(user.sessionId);
  other.close();
}

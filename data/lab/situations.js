// Situations that a client has to master, brought about through the interface itself.

const BEFORE = 8; // seconds that play before the programme without live rights begins

/**
 * The buttons: `name`, `id`, a `note` that says what will be seen, `missing` if the catalogue has nothing for it, `run`.
 */
export function situations({ client, service, films, channels }) {
  const rated = films.filter(({ pgAge }) => pgAge >= 18)[0];
  const barred = channels.find(({ guide }) => guide?.current && !guide.current.liveAvailable);
  const easy = channels.find(({ guide }) => guide?.current?.liveAvailable && (guide.current.pgAge ?? 18) < 7) ?? channels[0];
  const any = easy ? undefined : 'The catalogue has no livestream in DASH.';
  const playing = async () => {
    if (!client.viewing || client.viewing.held) await client.start(easy);
    return client.viewing;
  };
  return [
    {
      name: 'PIN',
      id: 'pin',
      note: 'Starts a film rated 18. The entitlement is refused until the PIN is entered.',
      missing: rated ? undefined : 'The catalogue has no film rated 18 or above.',
      run: () => client.start(rated),
    },
    {
      name: 'No live rights (552)',
      id: '552',
      note: `Plays ${barred?.name ?? ''} up to a programme without live rights. Its heartbeat is answered with 552, and the picture stops.`,
      missing: barred ? undefined : 'No programme without live rights is on now.',
      run: () => client.start(barred, { offset: Math.floor(barred.guide.current.start - Date.now() / 1000) - BEFORE }),
    },
    {
      name: 'Displace',
      id: 'displace',
      note: 'Starts the same title a second time on this device. The next heartbeat or media request of the first is answered with 410.',
      missing: any,
      run: async () => displace(service, await playing()),
    },
    {
      name: 'Expired token',
      id: 'expired',
      note: 'Takes the player its token. The next heartbeat is answered with 401; the player logs in once and goes on.',
      missing: any,
      run: async () => expire(client, service, await playing()),
    },
  ];
}

/** A preflight of the same device takes over its session. The new one is ended at once. */
async function displace(service, viewing) {
  if (!viewing) return;
  const entitled = await service.entitle(viewing.assetId);
  if (!entitled.ok) return;
  const headers = service.playbackHeaders(entitled.body.token, viewing.encrypted);
  const answer = await service.preflight(viewing.assetId, headers);
  if (answer.ok) await service.call('DELETE', answer.body.heartbeat, { headers: { ...headers, ...answer.body.headers } });
}

/**
 * Ends the log-in whose token the player holds. A session ends with its log-in, so a heartbeat of a second log-in takes it
 * over first.
 */
async function expire(client, service, viewing) {
  if (!viewing) return;
  const { user } = service;
  const answer = await service.logIn();
  if (answer.ok) {
    const { token, userId } = answer.body;
    await client.heartbeat(viewing);
    await service.call('DELETE', `api/user/v1/users/${userId}/sessions/${user.sessionId}`, { token });
    service.user = user;
  }
}

// A partner's back end, as far as tests that need no player go: users, and play that nobody watches.

const DEVICE = {
  'Service-Play-DRM': 'clearkey',
  'Service-Play-Protocol': 'dash',
  'Service-Play-DevicePlatform': 'linux',
  'Service-Play-DeviceType': 'tv',
  'Service-Play-DeviceModel': 'Telly 5',
  'Service-Play-DeviceId': 'telly',
};

/** One call of the partner interface; the body of its answer. */
export async function call({ baseUrl, partnerToken }, method, path, headers = {}, body = undefined) {
  const answer = await fetch(new URL(path, baseUrl), {
    method,
    headers: { 'Service-AccessToken': partnerToken, ...headers },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** Signs a user up; who that is. */
export async function signUp(demo, email, name) {
  const body = { identity: email, accessKey: 'a long enough pass phrase', name };
  const { userId, token } = await call(demo, 'PUT', '/api/login/v2/auth/email', {}, body);
  return { userId, email, bearer: { Authorization: `Bearer ${token}` } };
}

/** Starts play, on the one device or another; a function that beats once and tells the status. */
export async function play(demo, { bearer }, asset, device = {}) {
  const { token } = await call(demo, 'POST', `/api/entitlement/v2/asset/${asset}`, bearer);
  const sent = { ...bearer, ...DEVICE, ...device, 'Service-Play-EntitlementId': token };
  const { heartbeat, headers } = await call(demo, 'POST', `/api/playback/v2/preflight/asset/${asset}`, sent);
  const beat = {
    'Service-AccessToken': demo.partnerToken,
    ...sent,
    ...headers,
    'Service-Play-Timestamp': '3',
    'Service-Play-Bitrate': '4200000',
    'Service-Play-ResolutionWidth': '1920',
    'Service-Play-ResolutionHeight': '1080',
  };
  return async () => (await fetch(heartbeat, { method: 'POST', headers: beat })).status;
}

/** Reports telemetry events of the one device. */
export const report = (demo, { bearer }, events) =>
  call(demo, 'POST', '/api/tracker/v1/telemetry-events', { ...bearer, 'Content-Type': 'application/json' }, events);

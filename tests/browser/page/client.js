// A partner's client as its developer would write it: plain fetch calls for the interface, and Shaka Player,
// unmodified, for playback. It knows nothing of the test; the test calls `client` and looks at the page.
'use strict';

const client = {
  baseUrl: '', // of the appliance; another origin than this page's
  partnerToken: '',
  userToken: '',
  player: null,
  playerErrors: [], // codes of Shaka's errors
  licenses: [], // statuses of the license answers
  device: {
    'Service-Play-DevicePlatform': 'web',
    'Service-Play-DeviceType': 'browser',
    'Service-Play-DeviceModel': 'Chromium',
    'Service-Play-DeviceId': `browser-${crypto.randomUUID()}`,
  },
  playback: {}, // the headers that license and heartbeat requests carry, from the preflight on
};

client.video = document.getElementById('video');

client.authorization = () => ({
  'Service-AccessToken': client.partnerToken,
  ...(client.userToken && { Authorization: `Bearer ${client.userToken}` }),
});

/** One call of the interface; `path` may be an absolute address that an earlier answer gave. */
client.call = async (method, path, { headers = {}, body } = {}) => {
  const response = await fetch(new URL(path, client.baseUrl), {
    method,
    headers: {
      ...client.authorization(),
      ...headers,
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  const answer = { status: response.status, body: text === '' ? null : JSON.parse(text) };
  if (!response.ok) client.showError(answer.body);
  return answer;
};

/** What a viewer is told: the one member of an error that is meant for viewers. */
client.showError = (body) => {
  document.getElementById('message').textContent = body?.error?.user_message ?? '';
};

/** Signs up (PUT) or logs in (POST) and keeps the user's token. */
client.identify = async (method, identity, accessKey) => {
  client.userToken = '';
  const answer = await client.call(method, '/api/login/v2/auth/email', { body: { identity, accessKey } });
  if (answer.status === 200) client.userToken = answer.body.token;
  return answer;
};

client.entitle = (assetId, { offset, pinCode } = {}) =>
  client.call('POST', `/api/entitlement/v2/asset/${encodeURIComponent(assetId)}${offset ? `?offset=${offset}` : ''}`, {
    body: pinCode && { pinCode },
  });

client.preflight = async (assetId, entitlement, drm, protocol) => {
  const asked = { 'Service-Play-DRM': drm, 'Service-Play-Protocol': protocol, ...client.device };
  const answer = await client.call('POST', `/api/playback/v2/preflight/asset/${encodeURIComponent(assetId)}`, {
    headers: { ...asked, 'Service-Play-EntitlementId': entitlement },
  });
  if (answer.status === 200) client.playback = { ...asked, ...answer.body.headers };
  return answer;
};

/**
 * Starts the player. `tamperWithKeys` is a fault that the test's control asks for: it changes a few bits of each
 * key in the license before the player sees it.
 */
client.play = async ({ playlist, license }, { tamperWithKeys = false } = {}) => {
  shaka.polyfill.installAll();
  client.player = new shaka.Player();
  await client.player.attach(client.video);
  client.player.addEventListener('error', (event) => client.playerFailed(event.detail));
  const { LICENSE } = shaka.net.NetworkingEngine.RequestType;
  const network = client.player.getNetworkingEngine();
  network.registerRequestFilter((type, request) => {
    if (type === LICENSE) Object.assign(request.headers, client.authorization(), client.playback);
  });
  network.registerResponseFilter((type, response) => {
    if (type !== LICENSE) return;
    client.licenses.push(response.status ?? 200);
    if (tamperWithKeys) response.data = withWrongKeys(response.data);
  });
  if (license) client.player.configure({ drm: { servers: { 'org.w3.clearkey': license } } });
  try {
    await client.player.load(playlist);
  } catch (error) {
    client.playerFailed(error);
    return;
  }
  // Not awaited: while the license is outstanding, or refused, it stays pending; failures come as player errors.
  client.video.play().catch(() => {});
};

/** Remembers the code and, where the appliance refused a license, shows its message. */
client.playerFailed = (error) => {
  client.playerErrors.push(error.code);
  const { LICENSE_REQUEST_FAILED, BAD_HTTP_STATUS } = shaka.util.Error.Code;
  const [cause] = error.data;
  if (error.code === LICENSE_REQUEST_FAILED && cause?.code === BAD_HTTP_STATUS) {
    const [, status, text] = cause.data;
    client.licenses.push(status);
    client.refusal = JSON.parse(text);
    client.showError(client.refusal);
  }
};

/** `position` in seconds (Unix seconds for live); by default where the player stands. */
client.heartbeat = (address, { method = 'POST', position } = {}) =>
  client.call(method, address, {
    headers: {
      ...client.playback,
      'Service-Play-Timestamp': String(Math.floor(position ?? client.video.currentTime)),
      'Service-Play-Bitrate': String(Math.round(client.player?.getStats().streamBandwidth || 0)),
      'Service-Play-ResolutionWidth': String(client.video.videoWidth),
      'Service-Play-ResolutionHeight': String(client.video.videoHeight),
    },
  });

client.telemetry = (events) => client.call('POST', '/api/tracker/v1/telemetry-events', { body: events });

/** Figures of the moment that the player shows. */
client.figures = () => ({
  position: client.video.currentTime,
  frames: client.video.getVideoPlaybackQuality().totalVideoFrames,
  soundBytes: client.video.webkitAudioDecodedByteCount,
  encrypted: client.video.mediaKeys !== null,
  errors: client.playerErrors,
});

/** The loudest frequency of what is heard, in Hz, and its level in dB. */
client.listen = async () => {
  const context = new AudioContext();
  await context.resume();
  const analyser = context.createAnalyser();
  analyser.fftSize = 4096;
  context.createMediaElementSource(client.video).connect(analyser).connect(context.destination);
  await new Promise((done) => setTimeout(done, 500));
  const levels = new Float32Array(analyser.frequencyBinCount);
  analyser.getFloatFrequencyData(levels);
  const loudest = levels.indexOf(Math.max(...levels));
  return { hertz: (loudest * context.sampleRate) / analyser.fftSize, level: levels[loudest] };
};

function withWrongKeys(license) {
  const body = JSON.parse(new TextDecoder().decode(license));
  for (const key of body.keys) key.k = (key.k[0] === 'A' ? 'B' : 'A') + key.k.slice(1);
  return new TextEncoder().encode(JSON.stringify(body)).buffer;
}

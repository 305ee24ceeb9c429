// Walks the partner interface with openapi-fetch, which openapi-typescript types.
import createClient from 'openapi-fetch';
import type { paths as AdminPaths } from './generated/openapi-typescript/admin.js';
import type { paths } from './generated/openapi-typescript/partner.js';
import { assert, beat, clearKey, Coverage, demo, device, event, got, KEY_ID, NEW_PASSWORD, now, PASSWORD, refused, resetToken, today } from './lib.js';

const coverage = new Coverage(process.env['PARTNER']!);
const api = createClient<paths>({ baseUrl: demo.baseUrl, headers: { 'Service-AccessToken': demo.partnerToken }, redirect: 'manual' });
api.use({ onRequest: ({ request, schemaPath }) => coverage.visit(request.method, schemaPath) });
let userToken = '';
api.use({ onRequest: ({ request }) => (userToken && request.headers.set('Authorization', `Bearer ${userToken}`), request) });
const admin = createClient<AdminPaths>({ baseUrl: demo.opsUrl, headers: { Authorization: `Bearer ${demo.operatorToken}` } });

const { open, blackout } = demo.livestreams;
const identity = `fetch-${Date.now()}@example.com`;

// The description itself, the schedule and the catalogue need no user.
got(await api.GET('/openapi.json'));
got(await api.GET('/docs', { parseAs: 'text' }));
assert(got(await api.GET('/api/catalog/v1/livestreams', { params: { query: { limit: 2 } } })).length === 2, 'a page of two');
got(await api.GET('/api/catalog/v1/assets'));
const live = got(await api.GET('/api/schedule/v1/broadcasts/live', { params: { query: { livestreams: [open, blackout] } } }));
const broadcastId = live[open]!.current.id;
got(await api.GET('/api/schedule/v1/broadcasts/day/{date}', { params: { path: { date: today() }, query: { livestreams: [open] } } }));
const several = got(await api.GET('/api/schedule/v1/broadcasts', { params: { query: { broadcasts: [broadcastId, demo.catchup] } } }));
assert(several[demo.catchup]!.streamId === open, 'the livestream of a broadcast');
got(await api.GET('/api/schedule/v1/broadcasts/{broadcastId}', { params: { path: { broadcastId } } }));
refused(await api.GET('/api/schedule/v1/broadcasts/{broadcastId}', { params: { path: { broadcastId: 'none' } } }), 404, 'BROADCAST_NOT_FOUND');
got(await api.GET('/api/schedule/v1/livestreams/{livestreamId}/live', { params: { path: { livestreamId: open } } }));
got(await api.GET('/api/schedule/v1/livestreams/{livestreamId}/day/{date}', { params: { path: { livestreamId: open, date: today() } } }));
assert(got(await api.GET('/api/schedule/v1/xmltv', { parseAs: 'text' })).includes('<programme'), 'XMLTV');
assert(got(await api.GET('/api/schedule/v1/m3u', { parseAs: 'text' })).startsWith('#EXTM3U'), 'M3U');
const listed = { path: { livestreamId: 'news', manifest: 'index.m3u8' as const } };
got(await api.GET('/api/schedule/v1/m3u/{livestreamId}/{manifest}', { params: listed, parseAs: 'text' }), 302);

// An account.
got(await api.PUT('/api/login/v2/auth/email', { body: { identity, accessKey: PASSWORD, name: 'Ann', locale: 'sv' } }));
refused(await api.PUT('/api/login/v2/auth/email', { body: { identity, accessKey: PASSWORD } }), 409, 'EMAIL_IN_USE');
refused(await api.POST('/api/login/v2/auth/email', { body: { identity, accessKey: 'wrong' } }), 401, 'INVALID_CREDENTIALS');
const login = async (accessKey: string) => got(await api.POST('/api/login/v2/auth/email', { body: { identity, accessKey } }));
const { userId, token } = await login(PASSWORD);
userToken = token;
const user = { path: { userId } };
got(await api.GET('/api/user/v1/users/{userId}', { params: user }));
for (const email of [`new-${identity}`, identity]) got(await api.PUT('/api/user/v1/users/{userId}/email', { params: user, body: { email, password: PASSWORD } }));
got(await api.PUT('/api/user/v1/users/{userId}/pin', { params: user, body: { newPinCode: '2580', password: PASSWORD } }));
const change = { parentalControl: { enabled: true, limit: 15 }, pinCode: '2580' };
assert(got(await api.PUT('/api/user/v1/users/{userId}', { params: user, body: change })).parentalControl.enabled, 'parental control is on');
got(await api.PUT('/api/user/v1/users/{userId}', { params: user, body: { ...change, parentalControl: { enabled: false } } }));
got(await api.GET('/api/user/v1/users/{userId}/offers', { params: user }));

// Playback: entitlement, preflight, license, heartbeat, 552.
const entitle = (assetId: string, offset?: number) =>
  api.POST('/api/entitlement/v2/asset/{assetId}', { params: { path: { assetId }, query: { ...(offset && { offset }) } }, body: {} });
const prepare = (assetId: string, entitlement: string, id: string) =>
  api.POST('/api/playback/v2/preflight/asset/{assetId}', {
    params: { path: { assetId }, header: { ...device(id), ...clearKey, 'Service-Play-EntitlementId': entitlement } },
  });
refused(await entitle(demo.vod.premium), 403, 'NOT_ENTITLED');
refused(await entitle(blackout), 403, 'NO_LIVE_RIGHTS');
const entitlement = got(await entitle(blackout, demo.offsetOpen)).token;
const preflight = got(await prepare(blackout, entitlement, 'tv-1'));
const session = preflight.headers['Service-Play-Session']!;
const playing = { 'Service-Play-EntitlementId': entitlement, 'Service-Play-Session': session };
const license = got(await api.POST('/api/playback/v1/clearkey/license', { params: { header: playing }, body: { kids: [KEY_ID] } }));
assert(license.keys[0]!.kid === KEY_ID, 'the key that was asked for');
const challenge = { params: { header: playing }, body: 'challenge', bodySerializer: (body: string) => body };
refused(await api.POST('/api/playback/v1/widevine/license', challenge), 403, 'DRM_MISMATCH');
refused(await api.POST('/api/playback/v1/playready/license', challenge), 403, 'DRM_MISMATCH');
refused(await api.POST('/api/playback/v1/fairplay/license', challenge), 403, 'DRM_MISMATCH');
const unsigned = { params: { path: { token: 'none' } }, body: 'challenge', bodySerializer: (body: string) => body };
refused(await api.POST('/api/playback/v1/license/{token}', unsigned), 403, 'ENTITLEMENT_INVALID');
refused(await api.GET('/api/playback/v1/fairplay/certificate'), 404, 'CERTIFICATE_NOT_CONFIGURED');
const heartbeat = (timestamp: number) => api.POST('/api/playback/v1/heartbeat', { params: { header: { ...beat('tv-1', timestamp), ...playing } } });
assert(got(await heartbeat(now() + demo.offsetOpen)).interval === 10, 'an interval of ten seconds');
refused(await heartbeat(now()), 552, 'NO_LIVE_RIGHTS');
refused(await api.GET('/origin/v1/{token}/{path}', { params: { path: { token: 'none', path: 'manifest.mpd' } } }), 403, 'PLAYLIST_TOKEN_INVALID');
const reported = got(await api.POST('/api/tracker/v1/telemetry-events', { body: [event(1), event(2)] }), 202);
assert(reported.accepted === 2 && reported.rejected.length === 0, 'telemetry with members of its own is taken');

// Limits: 409 names the running sessions, and the viewer ends one; its player gets 410.
const free = got(await entitle(open)).token;
let full = await prepare(open, free, 'tv-2');
for (let tv = 3; full.response.ok && tv < 9; tv += 1) full = await prepare(open, got(await entitle(open)).token, `tv-${tv}`);
const details = refused(full, 409, 'STREAM_LIMIT_REACHED').details;
assert(details!.sessions!.some((one) => one.sessionId === session), 'the sessions in the way');
const ended = { path: { userId, sessionId: session } };
got(await api.GET('/api/user/v1/users/{userId}/sessions/{sessionId}', { params: ended }));
got(await api.DELETE('/api/user/v1/users/{userId}/sessions/{sessionId}', { params: ended }), 204);
assert(refused(await heartbeat(now()), 410, 'SESSION_ENDED').details!.reason === 'revoked', 'why the session ended');
const older = { path: { assetId: open }, header: { ...device('tv-1'), ...clearKey, 'Service-Play-EntitlementId': got(await entitle(open)).token } };
const again = got(await api.POST('/api/playback/v1/preflight/asset/{assetId}', { params: older })).headers['Service-Play-Session']!;
const sessions = got(await api.GET('/api/user/v1/users/{userId}/sessions', { params: user }));
assert(sessions.some((one) => one.kind === 'playback' && one.assetId === open), 'a playback session');
got(await api.DELETE('/api/playback/v1/heartbeat', { params: { header: { 'Service-Play-Session': again } } }), 204);
const tv = { path: { userId, deviceId: 'tv-1' } };
got(await api.GET('/api/user/v1/users/{userId}/devices', { params: user }));
got(await api.GET('/api/user/v1/users/{userId}/devices/{deviceId}', { params: tv }));
got(await api.DELETE('/api/user/v1/users/{userId}/devices/{deviceId}', { params: tv }), 204);
got(await api.DELETE('/api/user/v1/users/{userId}/devices', { params: user }), 204);

// The account again, to its end.
got(await api.GET('/api/user/v1/users/{userId}/export', { params: user }));
got(await api.POST('/api/user/v1/users/{userId}/pin/reset', { params: user }));
got(await api.PUT('/api/user/v1/users/{userId}/password', { params: user, body: { currentPassword: PASSWORD, newPassword: NEW_PASSWORD } }));
const mailed = async () => {
  const mails = got(await admin.GET('/admin/v1/mail'));
  const { id } = mails.find((mail) => mail.kind === 'reset' && mail.to === identity)!;
  return resetToken(got(await admin.GET('/admin/v1/mail/{mail}', { params: { path: { mail: id } } })).text);
};
got(await api.POST('/api/login/v2/password/send-reset-password', { body: { email: identity } }));
const linked = await mailed();
got(await api.GET('/reset', { params: { query: { token: linked } }, parseAs: 'text' }));
const form = { token: linked, password: PASSWORD, again: PASSWORD };
got(await api.POST('/reset', { body: form, bodySerializer: (fields) => new URLSearchParams({ ...fields }), parseAs: 'text' }));
got(await api.POST('/api/login/v2/password/send-reset-email', { body: { email: identity } }));
got(await api.POST('/api/login/v2/password/reset', { body: { token: await mailed(), password: NEW_PASSWORD } }));
userToken = (await login(NEW_PASSWORD)).token;
got(await api.POST('/api/login/v2/auth/logout'));
refused(await api.GET('/api/user/v1/users/{userId}', { params: user }), 401, 'USER_TOKEN_INVALID');
userToken = (await login(NEW_PASSWORD)).token;
got(await api.DELETE('/api/user/v1/users/{userId}/sessions', { params: user }), 204);
userToken = (await login(NEW_PASSWORD)).token;
got(await api.DELETE('/api/user/v1/users/{userId}', { params: user, body: { password: NEW_PASSWORD } }), 204);
coverage.finish('openapi-typescript');

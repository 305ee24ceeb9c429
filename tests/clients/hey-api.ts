// Walks the partner interface with the client that @hey-api/openapi-ts generates.
import { createClient, createConfig } from './generated/hey-api/admin/client/index.js';
import * as admin from './generated/hey-api/admin/index.js';
import { client } from './generated/hey-api/partner/client.gen.js';
import * as api from './generated/hey-api/partner/index.js';
import { assert, beat, clearKey, Coverage, demo, device, event, got, KEY_ID, NEW_PASSWORD, now, PASSWORD, refused, resetToken, today } from './lib.js';

const coverage = new Coverage(process.env['PARTNER']!);
let userToken = '';
client.setConfig({ baseUrl: demo.baseUrl, auth: ({ scheme }) => (scheme === 'bearer' ? userToken : demo.partnerToken), redirect: 'manual' });
client.interceptors.request.use((request, options) => {
  coverage.visit(request.method, options.url);
  return request;
});
const operator = createClient(createConfig({ baseUrl: demo.opsUrl, auth: demo.operatorToken }));

const { open, blackout } = demo.livestreams;
const identity = `hey-${Date.now()}@example.com`;

// The description itself, the schedule and the catalogue need no user.
got(await api.openapi());
got(await api.docs());
assert(got(await api.livestreams({ query: { limit: 2 } })).length === 2, 'a page of two');
got(await api.assets());
const live = got(await api.scheduleLive({ query: { livestreams: [open, blackout] } }));
const broadcastId = live[open]!.current.id;
got(await api.scheduleDay({ path: { date: today() }, query: { livestreams: [open] } }));
const several = got(await api.broadcasts({ query: { broadcasts: [broadcastId, demo.catchup] } }));
assert(several[demo.catchup]!.streamId === open, 'the livestream of a broadcast');
got(await api.broadcast({ path: { broadcastId } }));
refused(await api.broadcast({ path: { broadcastId: 'none' } }), 404, 'BROADCAST_NOT_FOUND');
got(await api.livestreamLive({ path: { livestreamId: open } }));
got(await api.livestreamDay({ path: { livestreamId: open, date: today() } }));
// Typed as a blob; `parseAs` decides what it is.
assert(String(got(await api.xmltv({ parseAs: 'text' }))).includes('<programme'), 'XMLTV');
assert(String(got(await api.m3U({ parseAs: 'text' }))).startsWith('#EXTM3U'), 'M3U');
const redirect = await api.m3uManifest({ path: { livestreamId: 'news', manifest: 'index.m3u8' } });
assert(redirect.response?.status === 302, 'a redirect to the manifest');

// An account.
got(await api.signUp({ body: { identity, accessKey: PASSWORD, name: 'Ann', locale: 'sv' } }));
refused(await api.signUp({ body: { identity, accessKey: PASSWORD } }), 409, 'EMAIL_IN_USE');
refused(await api.login({ body: { identity, accessKey: 'wrong' } }), 401, 'INVALID_CREDENTIALS');
const login = async (accessKey: string) => got(await api.login({ body: { identity, accessKey } }));
const { userId, token } = await login(PASSWORD);
userToken = token;
const path = { userId };
got(await api.readUser({ path }));
for (const email of [`new-${identity}`, identity]) got(await api.changeEmail({ path, body: { email, password: PASSWORD } }));
got(await api.changePin({ path, body: { newPinCode: '2580', password: PASSWORD } }));
const change = { parentalControl: { enabled: true, limit: 15 }, pinCode: '2580' };
assert(got(await api.updateUser({ path, body: change })).parentalControl.enabled, 'parental control is on');
got(await api.updateUser({ path, body: { ...change, parentalControl: { enabled: false } } }));
got(await api.offers({ path }));

// Playback: entitlement, preflight, license, heartbeat, 552.
const entitle = (assetId: string, offset?: number) => api.entitlement({ path: { assetId }, query: { ...(offset && { offset }) }, body: {} });
const prepare = (assetId: string, entitlement: string, id: string) =>
  api.preflight({ path: { assetId }, headers: { ...device(id), ...clearKey, 'Service-Play-EntitlementId': entitlement } });
refused(await entitle(demo.vod.premium), 403, 'NOT_ENTITLED');
refused(await entitle(blackout), 403, 'NO_LIVE_RIGHTS');
const entitlement = got(await entitle(blackout, demo.offsetOpen)).token;
const session = got(await prepare(blackout, entitlement, 'tv-1')).headers['Service-Play-Session']!;
const headers = { 'Service-Play-EntitlementId': entitlement, 'Service-Play-Session': session };
const license = got(await api.licenseClearkey({ headers, body: { kids: [KEY_ID] } }));
assert(license.keys[0]!.kid === KEY_ID, 'the key that was asked for');
const challenge = { headers, body: new Blob(['challenge']) };
refused(await api.licenseWidevine(challenge), 403, 'DRM_MISMATCH');
refused(await api.licensePlayready(challenge), 403, 'DRM_MISMATCH');
refused(await api.licenseFairplay(challenge), 403, 'DRM_MISMATCH');
const unsigned = { path: { token: 'none' }, body: new Blob(['challenge']) };
refused(await api.licenseSigned(unsigned), 403, 'ENTITLEMENT_INVALID');
refused(await api.fairplayCertificate(), 404, 'CERTIFICATE_NOT_CONFIGURED');
const heartbeat = (timestamp: number) => api.heartbeat({ headers: { ...beat('tv-1', timestamp), ...headers } });
assert(got(await heartbeat(now() + demo.offsetOpen)).interval === 10, 'an interval of ten seconds');
refused(await heartbeat(now()), 552, 'NO_LIVE_RIGHTS');
refused(await api.origin({ path: { token: 'none', path: 'manifest.mpd' } }), 403, 'PLAYLIST_TOKEN_INVALID');
const reported = got(await api.telemetry({ body: [event(1), event(2)] }), 202);
assert(reported.accepted === 2 && reported.rejected.length === 0, 'telemetry with members of its own is taken');

// Limits: 409 names the running sessions, and the viewer ends one; its player gets 410.
let full = await prepare(open, got(await entitle(open)).token, 'tv-2');
for (let tv = 3; full.response?.ok && tv < 9; tv += 1) full = await prepare(open, got(await entitle(open)).token, `tv-${tv}`);
const { details } = refused(full, 409, 'STREAM_LIMIT_REACHED');
assert(details!.sessions!.some((one) => one.sessionId === session), 'the sessions in the way');
const ended = { path: { userId, sessionId: session } };
got(await api.session(ended));
got(await api.endSession(ended), 204);
assert(refused(await heartbeat(now()), 410, 'SESSION_ENDED').details!.reason === 'revoked', 'why the session ended');
const older = { ...device('tv-1'), ...clearKey, 'Service-Play-EntitlementId': got(await entitle(open)).token };
const again = got(await api.preflightV1({ path: { assetId: open }, headers: older })).headers['Service-Play-Session']!;
const sessions = got(await api.sessions({ path }));
assert(sessions.some((one) => one.kind === 'playback' && one.assetId === open), 'a playback session');
got(await api.endPlayback({ headers: { 'Service-Play-Session': again } }), 204);
got(await api.devices({ path }));
got(await api.device({ path: { userId, deviceId: 'tv-1' } }));
got(await api.removeDevice({ path: { userId, deviceId: 'tv-1' } }), 204);
got(await api.clearDevices({ path }), 204);

// The account again, to its end.
got(await api.exportUser({ path }));
got(await api.resetPin({ path }));
got(await api.changePassword({ path, body: { currentPassword: PASSWORD, newPassword: NEW_PASSWORD } }));
const mailed = async () => {
  const mails = got(await admin.adminMails({ client: operator }));
  const { id } = mails.find((mail) => mail.kind === 'reset' && mail.to === identity)!;
  return resetToken(got(await admin.adminShowMail({ client: operator, path: { mail: id } })).text);
};
got(await api.sendReset({ body: { email: identity } }));
const linked = await mailed();
got(await api.resetPage({ query: { token: linked } }));
got(await api.resetForm({ body: { token: linked, password: PASSWORD, again: PASSWORD } }));
got(await api.sendResetEmail({ body: { email: identity } }));
got(await api.reset({ body: { token: await mailed(), password: NEW_PASSWORD } }));
userToken = (await login(NEW_PASSWORD)).token;
got(await api.logout());
refused(await api.readUser({ path }), 401, 'USER_TOKEN_INVALID');
userToken = (await login(NEW_PASSWORD)).token;
got(await api.endSessions({ path }), 204);
userToken = (await login(NEW_PASSWORD)).token;
got(await api.deleteUser({ path, body: { password: NEW_PASSWORD } }), 204);
coverage.finish('hey-api');

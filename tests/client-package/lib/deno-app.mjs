// An app in Deno, which deno.test.mjs starts: it prints what the service answered, as JSON, and ends when nothing is left to do.
import { PlaybackSession, PlaygateClient } from '../../../data/client/playgate-client.js';
import { Player } from './player.mjs';

const [baseUrl, partnerToken, livestream] = Deno.args;
const [email, password] = ['dina@example.org', 'a long pass phrase'];
const client = new PlaygateClient({ baseUrl, partnerToken, device: { platform: 'linux', type: 'tv', model: 'Deno' } });

const { userId } = await client.signUp(email, password, { name: 'Dina' });
await client.logOut();
const loggedIn = await client.logIn(email, password);
const live = await client.guide.live([livestream]);
const entitled = await client.playback.entitlement(livestream);

const player = new Player();
player.start = 0;
const session = new PlaybackSession(client, player);
const beats = [];
const twice = new Promise((done) => {
  const { heartbeat } = client.playback;
  client.playback.heartbeat = async (...given) => {
    beats.push(await heartbeat.apply(client.playback, given));
    if (beats.length === 2) done();
    return beats.at(-1);
  };
});
await session.start(livestream);
const { state, error } = session;
if (state === 'playing') await twice;
await session.close();
await client.logOut();
client.close();

console.log(JSON.stringify({ userId, loggedIn, live, entitled, state, error: error?.message, beats, reason: session.reason, left: client.telemetry.waiting }));

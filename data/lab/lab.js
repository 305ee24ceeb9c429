// The page: what can be played, the situations to try, and the wiring between client, picture and calls.
import { el } from './dom.js';
import { CallList } from './calls.js';
import { Client } from './client.js';
import { Interface } from './interface.js';
import { situations } from './situations.js';
import { Telemetry } from './telemetry.js';

const element = (id) => document.getElementById(id);
const video = element('video');

const settings = await (await fetch('settings.json', { cache: 'no-store' })).json();
const service = new Interface(settings.headerPrefix);
const calls = new CallList(element('calls'), element('no-calls'), element('media-count'));
service.addEventListener('call', ({ detail }) => calls.show(detail));
const client = new Client(service, new Telemetry(service), video, askPin);
element('environment').textContent = settings.environment;

// -- PIN

let answerPin = null;

function askPin() {
  answerPin?.(null); // one question at a time
  element('pin').hidden = false;
  element('pin-code').value = '';
  element('pin-code').focus({ preventScroll: true });
  return new Promise((done) => (answerPin = done));
}

function closePin(value) {
  element('pin').hidden = true;
  answerPin?.(value);
  answerPin = null;
}

element('pin').addEventListener('submit', (event) => {
  event.preventDefault();
  closePin(element('pin-code').value);
});
element('pin-cancel').addEventListener('click', () => {
  closePin(null);
  client.stop();
});
client.addEventListener('dropped', () => closePin(null));
if (settings.demo) element('pin-hint').textContent = `The demo’s PIN is ${settings.demo.pinCode}.`;

// -- The picture and its controls

client.addEventListener('message', ({ detail }) => (element('message').textContent = detail));

const controls = {
  pause: () => client.pause(),
  back: () => client.seek(client.viewing.player.time - 30),
  forward: () => client.seek(client.viewing.player.time + 30),
  'to-live': () => client.seek(client.viewing.player.livePoint),
  stop: () => client.stop(),
};
for (const [id, act] of Object.entries(controls)) element(id).addEventListener('click', act);

// Muted until somebody asks for sound: browsers start only silent video without a click.
video.muted = true;
element('mute').addEventListener('click', ({ currentTarget: button }) => {
  video.muted = !video.muted;
  button.textContent = video.muted ? 'Muted' : 'Sound on';
  button.setAttribute('aria-pressed', video.muted);
});

element('quality').addEventListener('change', ({ target }) => client.viewing?.player?.choose(target.value));

function showControls() {
  const { viewing } = client;
  const ready = Boolean(viewing?.player?.pictures);
  for (const id of ['pause', 'forward']) element(id).disabled = !ready || Boolean(viewing.held);
  element('back').disabled = !ready;
  element('to-live').disabled = !ready || !viewing.live;
  element('stop').disabled = !viewing;
  element('pause').textContent = viewing?.state === 'paused' ? 'Play' : 'Pause';
  const pictures = ready ? viewing.player.pictures : [];
  const quality = element('quality');
  quality.disabled = pictures.length < 2;
  const known = [...quality.options].map(({ value }) => value).join();
  if (known !== pictures.map(({ id }) => id).join()) {
    quality.replaceChildren(...pictures.map(({ id, height }) => el('option', { value: id }, `${height}p`)));
  }
}

const HOUR = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZoneName: 'short' };
const time = (seconds, options) => new Date(seconds * 1000).toLocaleTimeString(undefined, options);

/** The time of day with the zone, of 24 hours in each language. */
const hour = (seconds) => time(seconds, HOUR);
const clock = (seconds) => time(seconds, { ...HOUR, second: '2-digit' });

function showFacts() {
  const { viewing } = client;
  const frames = video.getVideoPlaybackQuality?.().totalVideoFrames ?? 0;
  const ready = viewing?.player?.pictures;
  const at = ready && client.position();
  const facts = viewing && {
    Title: viewing.name,
    State: viewing.state,
    Position: ready && (viewing.live || viewing.since ? clock(at) : `${at.toFixed(1)} s`),
    Programme: viewing.program && `until ${clock(viewing.program.stop)}`,
    Frames: `${frames} at ${video.videoWidth} × ${video.videoHeight}`,
    Ready: ready && `${viewing.player.ahead.toFixed(0)} s ahead`,
    Session: viewing.session && `${viewing.session.slice(0, 8)}…`,
    'Next heartbeat': viewing.nextBeat && `in ${Math.max(0, Math.round((viewing.nextBeat - Date.now()) / 1000))} s`,
  };
  const pairs = Object.entries(facts ?? { State: 'nothing plays' }).filter(([, value]) => value);
  element('facts').replaceChildren(...pairs.map(([name, value]) => el('div', el('dt', name), el('dd', value))));
}

client.addEventListener('change', () => {
  showControls();
  showFacts();
});
setInterval(showFacts, 500);
showFacts();

addEventListener('pagehide', () => client.stop());

// -- What can be played

const play = (title, options) => () => client.start(title, options);

const tile = (title, note, options) =>
  el('button.tile', { type: 'button', onclick: play(title, options), 'data-asset': title.assetId }, el('b', title.name), el('small', note));


/** Finished broadcasts that can be caught up on, the newest of each livestream. */
async function catchup(channels) {
  if (!channels.length) return [];
  const days = [0, 1].map((back) => new Date(Date.now() - back * 86_400_000).toISOString().slice(0, 10));
  const answers = await Promise.all(days.map((date) => service.day(channels.map(({ id }) => id), date)));
  const now = Date.now() / 1000;
  const newest = ({ id, name, encrypted }) => {
    const all = answers.flatMap((answer) => answer.body?.[id] ?? []);
    const over = all.filter(({ stop, catchupInterval }) => stop < now && catchupInterval?.to > now);
    return over.sort((a, b) => b.start - a.start).slice(0, 3).map((one) => ({ ...one, name, encrypted }));
  };
  return channels.flatMap(newest);
}

async function playCatchup(broadcast) {
  const answer = await service.broadcasts([broadcast.id]);
  const { streamStart } = answer.body?.[broadcast.id] ?? {};
  await client.start({ ...titleOf(broadcast), since: streamStart ?? broadcast.start });
}

const titleOf = ({ id, title, encrypted }) => ({ assetId: id, name: title, encrypted });

const group = (name, tiles) => (tiles.length ? [el('h3', name), el('div.tiles', tiles)] : []);

const age = (years) => (years === undefined ? 'not rated' : years === 0 ? 'all ages' : `from ${years}`);
const drm = ({ encrypted }) => (encrypted ? 'encrypted' : 'in the clear');

async function show() {
  const [livestreams, assets] = await Promise.all([service.livestreams(), service.assets()]);
  const refused = [livestreams, assets].find((answer) => !answer.ok);
  element('choose-refusal').hidden = !refused;
  if (refused) {
    element('choose-refusal').textContent = refused.body?.error?.message ?? refused.message;
    return;
  }
  const playable = (one) => one.protocols.includes('dash');
  const channels = livestreams.body.filter(playable);
  const live = channels.length ? (await service.live(channels.map(({ id }) => id))).body : {};
  const found = await catchup(channels.filter(({ catchupDays }) => catchupDays));
  const films = assets.body.filter(playable).map((one) => ({ assetId: one.id, name: one.title, ...one }));
  const channel = (one) => ({ assetId: one.id, name: one.name, encrypted: one.encrypted, live: true });
  element('titles').replaceChildren(
    ...group('Films', films.map((one) => tile(one, `${drm(one)}, ${age(one.pgAge)}`))),
    ...group(
      'Live',
      channels.map((one) => tile(channel(one), `${live[one.id]?.current?.title ?? 'no programme'}, ${drm(one)}`)),
    ),
    ...group(
      'Catch-up',
      found.map((one) =>
        el('button.tile', { type: 'button', onclick: () => playCatchup(one), 'data-asset': one.id }, el('b', one.title), el('small', `${one.name}, ${hour(one.start)}`)),
      ),
    ),
  );
  const context = { client, service, films, channels: channels.map((one) => ({ ...channel(one), guide: live[one.id] })) };
  element('tries').replaceChildren(
    ...situations(context).map(({ name, id, note, missing, run }) =>
      el(
        'div.try',
        el('button', { type: 'button', id: `try-${id}`, disabled: Boolean(missing), onclick: run }, name),
        el('small', missing ?? note),
      ),
    ),
  );
}

// -- The account

const fields = { 'partner-token': 'partnerToken', identity: 'identity', 'access-key': 'accessKey' };
for (const [id, member] of Object.entries(fields)) element(id).value = settings.demo?.[member] ?? '';

/** Without invisible characters of a page around and in it; a token also without quotes, and in lower case as it was issued. */
function pasted(text) {
  const plain = text.replace(/[\u00ad\u200b\u200e\u200f\u2060\ufeff]/g, '').trim();
  return plain.match(/^["'“„<]?([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})["'”“>]?$/i)?.[1].toLowerCase() ?? plain;
}

async function connect() {
  await client.stop();
  service.use(Object.fromEntries(Object.entries(fields).map(([id, member]) => [member, pasted(element(id).value)])));
  await show();
}

element('connect').addEventListener('submit', (event) => {
  event.preventDefault();
  connect();
});
element('clear').addEventListener('click', () => calls.clear());
element('show-media').addEventListener('change', ({ target }) => calls.showMedia(target.checked));

const published = new URL(settings.publicUrl);
if (published.origin !== location.origin) {
  // The addresses that the service answers are on the published origin, and the page may call no other than its own.
  element('choose-refusal').hidden = false;
  element('choose-refusal').replaceChildren('Open this page at ', el('a', { href: `${settings.publicUrl}/lab/` }, `${settings.publicUrl}/lab/`), '.');
} else if (settings.demo) await connect();
else {
  element('choose-refusal').hidden = false;
  element('choose-refusal').textContent = 'Enter a partner token and a user under Account.';
}

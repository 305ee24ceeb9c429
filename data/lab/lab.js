// The page: `<playgate-player>` with its session, what can be played, the situations to try, and each call.
import { BuiltinAdapter } from '../client/adapter-builtin.js';
import { PlaygateClient, memoryStorage } from '../client/playgate-client.js';
import '../client/playgate-player.js';
import { CallList } from './calls.js';
import { el } from './dom.js';
import { Recorder } from './recorder.js';
import { situations } from './situations.js';
import { clock, findTitles } from './titles.js';

const element = (id) => document.getElementById(id);
const player = document.querySelector('playgate-player');
const settings = await (await fetch('settings.json', { cache: 'no-store' })).json();
element('environment').textContent = settings.environment;
if (settings.demo) element('pin-hint').textContent = `The demo’s PIN is ${settings.demo.pinCode}.`;

// -- The calls

let beatAt = 0; // when the last heartbeat was sent
const calls = new CallList(element('calls'), element('no-calls'), element('media-count'));
const recorder = new Recorder((call) => {
  if (call.pending && call.method === 'POST' && call.url.pathname.endsWith('/heartbeat')) beatAt = call.at;
  calls.show(call);
});
element('clear').addEventListener('click', () => calls.clear());
element('show-media').addEventListener('change', ({ target }) => calls.showMedia(target.checked));

// -- The player

let adapter;
player.adapter = (video) => (adapter = new BuiltinAdapter(video, { fetch: recorder.fetch(true) }));

/** Starts a title; resolves with the session once it plays, or rejects when it does not. */
function play({ assetId, name, film }, offset = '') {
  element('begin').hidden = true;
  player.video.loop = Boolean(film);
  player.setAttribute('name', name);
  player.setAttribute('offset', offset);
  player.setAttribute('asset', assetId);
  return new Promise((done, fail) => {
    const look = ({ detail: { state, error } }) => {
      if (state !== 'playing' && state !== 'ended') return;
      player.removeEventListener('statechange', look);
      if (state === 'playing') done(player.session);
      else fail(error);
    };
    player.addEventListener('statechange', look);
  });
}

/** From the picture: at 552 the position of the session is the live point. */
function step(seconds) {
  const { session, video } = player;
  const at = session.live && session.state === 'held' ? adapter.zero() + video.currentTime : session.position;
  void session.seek(at + seconds);
}

const controls = {
  back: () => step(-30),
  forward: () => step(30),
  stop: () => player.session.stop(),
};
for (const [id, act] of Object.entries(controls)) element(id).addEventListener('click', act);

function ahead({ buffered, currentTime }) {
  for (let i = 0; i < buffered.length; i += 1) {
    if (buffered.start(i) <= currentTime && currentTime <= buffered.end(i)) return buffered.end(i) - currentTime;
  }
  return 0;
}

function showFacts() {
  const { session, video } = player;
  const { state, prepared, position, program, reason } = session ?? {};
  const plays = Boolean(session && !['idle', 'ended'].includes(state));
  element('back').disabled = element('forward').disabled = position == null;
  element('stop').disabled = !plays;
  const next = Math.round((beatAt - Date.now()) / 1000 + (prepared?.heartbeatInterval ?? 0));
  const facts = plays && {
    Title: player.getAttribute('name'),
    State: state,
    Position: position != null && (position > 1e9 ? clock(position) : `${position.toFixed(1)} s`),
    Programme: program && `until ${clock(program.stop)}`,
    Frames: `${video.getVideoPlaybackQuality().totalVideoFrames} at ${video.videoWidth} × ${video.videoHeight}`,
    Ready: `${ahead(video).toFixed(0)} s ahead`,
    Session: prepared && `${prepared.sessionId.slice(0, 8)}…`,
    'Next heartbeat': prepared && beatAt && `in ${Math.max(0, next)} s`,
  };
  const pairs = Object.entries(facts || { State: `nothing plays${reason ? ` (${reason})` : ''}` }).filter(([, value]) => value);
  element('facts').replaceChildren(...pairs.map(([name, value]) => el('div', el('dt', name), el('dd', value))));
}

player.addEventListener('statechange', showFacts);
setInterval(showFacts, 500);
showFacts();

// -- What can be played

const start = (title) => () => void play(title).catch(() => {}); // the player says why

const progress = ({ now }) => now && el('progress', { max: now.stop - now.start, value: Date.now() / 1000 - now.start, 'aria-hidden': 'true' });

const tile = (title) =>
  el('button.tile', { type: 'button', onclick: start(title), 'data-asset': title.assetId }, el('b', title.name), el('small', title.note), progress(title));

const group = (name, titles) => (titles.length ? [el('h3', name), el('div.tiles', titles.map(tile))] : []);

async function show(client) {
  let found;
  try {
    found = await findTitles(client);
  } catch (error) {
    return refuse(error.message);
  }
  const { films, channels, finished } = found;
  refuse();
  element('titles').replaceChildren(...group('Live', channels), ...group('Films', films), ...group('Catch-up', finished));
  const first = channels.find(({ now }) => now?.liveAvailable) ?? films[0];
  element('begin').hidden = !first || Boolean(player.session?.assetId);
  if (first) element('begin').replaceChildren(el('span.play', '▶'), el('b', first.name), el('small', first.now?.title ?? first.note));
  element('begin').onclick = first && start(first);
  const tries = situations({ player, play, logIn: () => secondLogIn(client), films, channels });
  element('tries').replaceChildren(
    ...tries.map(({ name, id, note, missing, run }) =>
      el(
        'div.try',
        // The list of calls shows each refusal.
        el('button', { type: 'button', id: `try-${id}`, disabled: Boolean(missing), onclick: () => void run().catch(() => {}) }, name),
        el('small', missing ?? note),
      ),
    ),
  );
}

function refuse(...words) {
  element('choose-refusal').hidden = words.length === 0;
  element('choose-refusal').replaceChildren(...words);
}

// -- The account

const fields = { 'partner-token': 'partnerToken', identity: 'identity', 'access-key': 'accessKey' };
for (const [id, member] of Object.entries(fields)) element(id).value = settings.demo?.[member] ?? '';

/** Without invisible characters of a page around and in it; a token also without quotes, and in lower case as it was issued. */
function pasted(text) {
  const plain = text.replace(/[\u00ad\u200b\u200e\u200f\u2060\ufeff]/g, '').trim();
  return plain.match(/^["'“„<]?([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})["'”“>]?$/i)?.[1].toLowerCase() ?? plain;
}

/** The token of a user stays in this tab; the device outlives it, because devices are counted. */
function storage(identity) {
  const place = (key) => (key === 'playgate:device' ? [localStorage, key] : [sessionStorage, `${key} ${identity}`]);
  const use = (method) => (key, value) => {
    const [kept, name] = place(key);
    return kept[method](name, value);
  };
  return { getItem: use('getItem'), setItem: use('setItem'), removeItem: use('removeItem') };
}

function open(options) {
  const { partnerToken, identity, accessKey } = Object.fromEntries(Object.entries(fields).map(([id, member]) => [member, pasted(element(id).value)]));
  const credentials = async () => ({ identity, accessKey });
  return new PlaygateClient({
    baseUrl: new URL('../', document.baseURI).href,
    partnerToken,
    headerPrefix: settings.headerPrefix,
    device: { model: 'Playgate lab player' },
    app: { name: 'lab player' },
    storage: storage(identity),
    fetch: recorder.fetch(),
    credentials,
    ...options,
  });
}

async function secondLogIn(client) {
  const other = open({ storage: memoryStorage(), device: { id: await client.deviceId } });
  await other.request('GET', 'api/user/v1/users/' + client.user.userId, { asUser: true });
  return other;
}

async function connect() {
  const before = player.client;
  player.removeAttribute('asset');
  player.client = open();
  before?.close();
  await show(player.client);
}

element('connect').addEventListener('submit', (event) => {
  event.preventDefault();
  void connect();
});

const published = new URL(settings.publicUrl);
if (published.origin !== location.origin) {
  // The addresses that the service answers are on the published origin, and the page may call no other than its own.
  refuse('Open this page at ', el('a', { href: `${settings.publicUrl}/lab/` }, `${settings.publicUrl}/lab/`), '.');
} else if (settings.demo) await connect();
else refuse('Enter a partner token and a user under Account.');

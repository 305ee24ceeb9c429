// The demo's own page: all that a partner writes for a player with titles to choose. The log-in is that of the demo's user.
import { PlaygateClient } from '../client/playgate-client.js';
import '../client/playgate-player.js';

const { demo, headerPrefix, publicUrl } = await (await fetch('settings.json')).json();
// The addresses of media are on the published origin, and this page may call no other than its own.
if (new URL(publicUrl).origin !== location.origin) location.replace(`${publicUrl}/lab/watch.html`);

const player = document.querySelector('playgate-player');
const { partnerToken, identity, accessKey } = demo;
const client = new PlaygateClient({ baseUrl: new URL('../', location.href).href, partnerToken, headerPrefix, credentials: async () => ({ identity, accessKey }) });
player.client = client;

const say = (id, text) => (document.getElementById(id).textContent = text);
const hour = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

function play(asset, name, note) {
  player.setAttribute('asset', asset);
  say('title', name);
  say('about', note);
  for (const card of document.querySelectorAll('.titles button')) card.ariaPressed = String(card.dataset.asset === asset);
}

/** A button with a letter, two lines, and the progress of a programme. */
function card({ asset, name, note, program, letter = name[0] }) {
  const button = Object.assign(document.createElement('button'), { type: 'button', ariaPressed: 'false', onclick: () => play(asset, name, note) });
  button.dataset.asset = asset;
  for (const [tag, text] of [['i', letter], ['b', name], ['small', note]]) button.append(Object.assign(document.createElement(tag), { textContent: text }));
  button.firstChild.ariaHidden = 'true';
  if (program) button.append(Object.assign(document.createElement('progress'), { max: program.stop - program.start, value: client.clock.now() - program.start, ariaHidden: 'true' }));
  return button;
}

const age = (years) => (years >= 18 ? `From ${years} · the PIN is ${demo.pinCode}` : years ? `From ${years}` : 'For all ages');
const [livestreams, films] = await Promise.all([client.guide.livestreams(), client.guide.assets()]);
const live = await client.guide.live(livestreams.map(({ id }) => id));
const channels = livestreams.map(({ id, name }) => {
  const program = live[id]?.current;
  const note = program ? `${name} · ${hour(program.start)}–${hour(program.stop)}${program.liveAvailable ? '' : ' · not live'}` : name;
  return { asset: id, name: program?.title ?? name, note, program, letter: name[0] };
});

document.querySelector('#live .titles').append(...channels.map(card));
document.querySelector('#films .titles').append(...films.map(({ id, title, pgAge }) => card({ asset: id, name: title, note: age(pgAge) })));
player.addEventListener('programchange', ({ detail }) => {
  if (!detail) return;
  say('title', detail.title);
  say('about', [detail.description, `${hour(detail.start)}–${hour(detail.stop)}`].filter(Boolean).join(' · '));
});

const first = channels.find((one) => one.program?.liveAvailable && !(one.program.pgAge > 7)) ?? channels[0];
play(first.asset, first.name, first.note);

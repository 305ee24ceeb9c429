// The bar below the picture, and the keys.

import { icon } from './player-template.js';
import { element } from './player-panels.js';

/**
 * What the controls show and do; the player element implements it.
 * @typedef {object} Playable
 * @property {HTMLVideoElement} video
 * @property {import('./session.js').PlaybackSession | null} session
 * @property {import('./player-texts.js').Texts} words
 * @property {{start: number, stop: number} | null} range of positions: the program of a livestream, or the film
 * @property {boolean} mayStartOver
 * @property {import('./player-adapter.js').TrackLists | null} tracks
 * @property {() => void} replay
 * @property {() => number} now of the service
 */

const STEP = 10;
/** Seconds behind the present that still count as live: players are behind by themselves. */
const LIVE_WITHIN = 45;
const IDLE_MS = 3_000;

export class Controls {
  #root;
  #player;
  #seeking = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #idle;

  /**
   * @param {ShadowRoot} root
   * @param {Playable} player
   * @param {AbortSignal} signal
   */
  constructor(root, player, signal) {
    this.#root = root;
    this.#player = player;
    const { video } = player;
    const on = (/** @type {EventTarget} */ target, /** @type {string} */ event, /** @type {(event: any) => void} */ act) =>
      target.addEventListener(event, act, { signal });
    on(this.#get('play'), 'click', () => this.toggle());
    on(this.#get('start-over'), 'click', () => this.#seek(player.range?.start ?? 0));
    on(this.#get('live'), 'click', () => void player.session?.goLive());
    on(this.#get('mute'), 'click', () => (video.muted = !video.muted));
    on(this.#get('volume'), 'input', ({ target }) => this.#setVolume(Number(target.value)));
    on(this.#get('seek'), 'input', () => (this.#seeking = true));
    on(this.#get('seek'), 'change', ({ target }) => this.#seek(Number(target.value)));
    on(this.#get('pip'), 'click', () => this.#pip());
    on(this.#get('fullscreen'), 'click', () => this.#fullscreen());
    on(root, 'keydown', (event) => this.#key(event));
    on(video, 'click', () => this.toggle());
    for (const event of ['timeupdate', 'volumechange', 'play', 'pause', 'durationchange']) on(video, event, () => this.show());
    for (const event of ['pointermove', 'keydown', 'focusin']) on(root, event, () => this.#wake());
    for (const kind of /** @type {const} */ (['audio', 'subtitles', 'quality'])) {
      on(this.#get(kind), 'change', ({ target }) => player.tracks?.choose(kind, target.value));
    }
    this.#get('pip').hidden = !document.pictureInPictureEnabled;
    this.#get('fullscreen').hidden = !document.fullscreenEnabled;
    this.show();
  }

  /** @param {string} name */
  #get(name) {
    return /** @type {HTMLInputElement} */ (this.#root.querySelector(`.${name}`));
  }

  toggle() {
    const { session, video, replay } = this.#player;
    if (!session || session.state === 'ended' || session.state === 'idle') replay();
    else if (video.paused) session.play();
    else session.pause();
  }

  /** @param {number} position */
  #seek(position) {
    this.#seeking = false;
    void this.#player.session?.seek(position);
  }

  /** @param {number} volume */
  #setVolume(volume) {
    const { video } = this.#player;
    video.volume = Math.min(1, Math.max(0, volume));
    video.muted = video.volume === 0;
  }

  #pip() {
    const leave = document.pictureInPictureElement;
    void (leave ? document.exitPictureInPicture() : this.#player.video.requestPictureInPicture()).catch(() => {});
  }

  #fullscreen() {
    const { host } = this.#root;
    void (document.fullscreenElement ? document.exitFullscreen() : host.requestFullscreen()).catch(() => {});
  }

  /** Keys that viewers know from other players. A key that a control uses itself is left to it. @param {KeyboardEvent} event */
  #key(event) {
    const { key, target, ctrlKey, metaKey, altKey } = event;
    const { session, video, range } = this.#player;
    if (ctrlKey || metaKey || altKey || !session) return;
    const at = target instanceof HTMLElement ? target.localName : '';
    const used = { button: [' ', 'Enter'], input: ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End'], select: null }[at];
    if (used === null || used?.includes(key)) return;
    const position = session.position ?? 0;
    /** @type {Record<string, () => void>} */
    const keys = {
      ' ': () => this.toggle(),
      k: () => this.toggle(),
      ArrowLeft: () => this.#seek(position - STEP),
      ArrowRight: () => this.#seek(position + STEP),
      ArrowUp: () => this.#setVolume(video.volume + 0.1),
      ArrowDown: () => this.#setVolume(video.volume - 0.1),
      Home: () => this.#seek(range?.start ?? 0),
      End: () => session.live && void session.goLive(),
      l: () => session.live && void session.goLive(),
      m: () => (video.muted = !video.muted),
      f: () => this.#fullscreen(),
      p: () => this.#pip(),
    };
    const act = keys[key];
    if (!act) return;
    event.preventDefault(); // a space would scroll the page
    act();
  }

  /** Shows the bar, and hides it when nobody moves while it plays. */
  #wake() {
    const stage = this.#get('stage');
    stage.classList.remove('idle');
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => stage.classList.toggle('idle', !this.#player.video.paused), IDLE_MS);
  }

  /** Lets the bar say what is. */
  show() {
    const { session, video, words, range, mayStartOver, now } = this.#player;
    const position = session?.position ?? 0;
    const playing = !video.paused && session?.state !== 'ended';
    this.#label('play', playing ? words.pause : session?.state === 'ended' ? words.replay : words.play, playing ? 'pause' : session?.state === 'ended' ? 'replay' : 'play');
    this.#label('mute', video.muted ? words.unmute : words.mute, video.muted ? 'muted' : 'volume');
    this.#get('volume').value = String(video.muted ? 0 : video.volume);
    const live = session?.live ?? false;
    const atLive = live && now() - position < LIVE_WITHIN;
    const button = this.#get('live');
    button.hidden = !live;
    button.setAttribute('aria-pressed', String(atLive));
    button.setAttribute('aria-label', atLive ? words.live : words.goLive);
    this.#get('start-over').hidden = !live || !mayStartOver;
    const seek = this.#get('seek');
    seek.disabled = !range;
    if (this.#seeking) return;
    const { start = 0, stop = 0 } = range ?? {};
    Object.assign(seek, { min: String(start), max: String(stop), value: String(range ? position : 0) });
    const at = live ? hour(position) : duration(position - start);
    const whole = live ? `${hour(start)}–${hour(stop)}` : duration(stop - start);
    this.#get('now').textContent = range ? at : '';
    this.#get('whole').textContent = range ? `${live ? ', ' : ' / '}${whole}` : '';
    seek.setAttribute('aria-valuetext', live ? at : `${at} ${words.of} ${whole}`);
  }

  /**
   * @param {string} name
   * @param {string} label
   * @param {Parameters<typeof icon>[0]} picture
   */
  #label(name, label, picture) {
    const button = this.#get(name);
    if (button.ariaLabel === label) return;
    button.ariaLabel = button.title = label;
    button.innerHTML = icon(picture);
  }

  /** Fills the lists of qualities, languages and subtitles. */
  showTracks() {
    const { tracks } = this.#player;
    for (const kind of /** @type {const} */ (['audio', 'subtitles', 'quality'])) {
      const options = tracks?.options(kind) ?? [];
      const list = this.#get(kind);
      list.hidden = options.length < 2;
      list.replaceChildren(
        ...options.map(({ value, label, chosen }) => element('option', { value, ...(chosen && { selected: '' }) }, label)),
      );
    }
  }

  close() {
    clearTimeout(this.#idle);
  }
}

/** @param {number} seconds */
function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** @param {number} seconds Unix time */
const hour = (seconds) => new Date(seconds * 1000).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

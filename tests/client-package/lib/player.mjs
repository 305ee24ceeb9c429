// A player without pictures, for sessions in Node.js: its media element plays by the clock, once the test lets it.

import { setMaxListeners } from 'node:events';

/** Seconds that a livestream reaches back. */
const WINDOW = 90_000;

class Media extends EventTarget {
  paused = true;
  ended = false;
  readyState = 0;
  videoWidth = 1280;
  videoHeight = 720;
  #at = 0;
  #since = 0;

  get currentTime() {
    return this.#at + (this.paused ? 0 : (performance.now() - this.#since) / 1000);
  }

  set currentTime(seconds) {
    this.#at = seconds;
    this.#since = performance.now();
    this.dispatchEvent(new Event('seeking'));
  }

  get seekable() {
    return { length: 1, start: () => 0, end: () => Infinity };
  }

  async play() {
    if (!this.paused) return;
    this.#since = performance.now();
    this.paused = false;
    this.dispatchEvent(new Event('play'));
    this.dispatchEvent(new Event('playing'));
  }

  pause() {
    if (this.paused) return;
    this.#at = this.currentTime;
    this.paused = true;
    this.dispatchEvent(new Event('pause'));
  }

  /** Listeners that are left, by counting those that were added with a signal that has not aborted. */
  listeners = 0;

  addEventListener(event, act, options) {
    if (options?.signal) setMaxListeners(0, options.signal);
    super.addEventListener(event, act, options);
    this.listeners += 1;
    options?.signal?.addEventListener('abort', () => (this.listeners -= 1), { once: true });
  }
}

export class Player {
  name = 'fake';
  media = new Media();
  loads = [];
  unloads = 0;
  /** Whether a picture comes by itself after load. */
  plays = true;
  /** Unix time of second 0 of a livestream. */
  start = null;
  offered = [{ drm: 'clearkey', protocol: 'dash' }];
  events;

  ways() {
    return this.offered;
  }

  async load(source, events) {
    this.loads.push(source);
    this.events = events;
    this.media.paused = true;
    this.media.ended = false;
    const live = this.start !== null;
    if (live) this.start = Date.now() / 1000 - WINDOW;
    this.media.currentTime = live ? (source.position ?? Date.now() / 1000) - this.start : (source.position ?? 0);
    if (this.plays) this.shows();
  }

  shows() {
    this.media.dispatchEvent(new Event('canplay'));
  }

  zero() {
    return this.start;
  }

  bitrate() {
    return 2_000_000;
  }

  unload() {
    this.unloads += 1;
    this.media.pause();
  }
}

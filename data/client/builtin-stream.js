// Plays the manifests of `builtin-manifest.js` by the browser's own MediaSource and Encrypted Media Extensions. Times are those of the
// presentation: seconds from the start, for a livestream Unix seconds.

import { parseManifest } from './builtin-manifest.js';
import { playerError } from './drm.js';
import { backOff, pause } from './retry.js';

/**
 * @typedef {import('./builtin-manifest.js').Address} Address
 * @typedef {import('./builtin-manifest.js').Manifest} Manifest
 * @typedef {import('./builtin-manifest.js').Track} Track
 *
 * @typedef {object} StreamOptions
 * @property {(url: URL, init: RequestInit) => Promise<Response>} fetch
 * @property {(challenge: ArrayBuffer) => Promise<ArrayBuffer>} license
 * @property {(error: unknown) => void} failed
 */

/** Seconds that are kept ready. */
const AHEAD = 12;
/** Seconds that are kept to go back without a request. */
const BEHIND = 30;
/** Seconds between two pieces that play steps over: sound and pictures of a segment do not begin with the same sample. */
const GAP = 0.5;
/** Of a request that got no answer, or a 5xx. */
const TRIES = 3;
/** Seconds. */
const REQUEST_TIMEOUT = 20;

const cannotDecode = () => playerError('the browser cannot decode this');

/**
 * @param {EventTarget} target
 * @param {string} name
 * @param {AbortSignal} closed
 * @returns {Promise<any>}
 */
function event(target, name, closed) {
  const over = new AbortController();
  const waiting = new Promise((done, failed) => {
    target.addEventListener(name, done, over);
    target.addEventListener('error', () => failed(cannotDecode()), over);
    closed.addEventListener('abort', failed, over);
  });
  return waiting.finally(() => over.abort());
}

/** @param {string} hex */
const base64url = (hex) =>
  btoa(String.fromCharCode(...(hex.match(/../g) ?? []).map((pair) => parseInt(pair, 16))))
    .replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '');

/** A source buffer of the video or of the audio: its tracks, the one in use, and where the next segment begins. */
class TrackBuffer {
  /** Where the next segment begins; null where play stands. @type {number | null} */
  next = null;
  /** Counts jumps, so that a segment that was asked for before one is not appended after it. */
  turn = 0;
  /** @type {string | null} */
  initialized = null;

  /**
   * @param {Track[]} tracks
   * @param {SourceBuffer} buffer
   */
  constructor(tracks, buffer) {
    this.tracks = tracks;
    this.track = /** @type {Track} */ (tracks[0]);
    this.buffer = buffer;
  }

  get segments() {
    return /** @type {import('./builtin-manifest.js').Segments} */ (this.track.segments);
  }
}

export class BuiltinStream {
  #video;
  #options;
  #playlist;
  #source = new MediaSource();
  /** @type {TrackBuffer[]} */
  #trackBuffers = [];
  /** @type {Manifest} */
  #manifest = /** @type {any} */ (undefined);
  /** When the manifest was loaded, by `performance.now()`. */
  #loaded = 0;
  /** Presentation time of the video's second 0. */
  #origin = 0;
  /** @type {MediaKeySession | null} */
  #keys = null;
  #controller = new AbortController();

  /**
   * @param {HTMLMediaElement} video
   * @param {string} playlist
   * @param {StreamOptions} options
   */
  constructor(video, playlist, options) {
    this.#video = video;
    this.#playlist = new URL(playlist);
    this.#options = options;
  }

  get #closed() {
    return this.#controller.signal.aborted;
  }

  /**
   * @param {EventTarget} target
   * @param {string} name
   */
  #event(target, name) {
    return event(target, name, this.#controller.signal);
  }

  /**
   * Prepares play at a time, or at the live point or the start.
   * @param {number} [from]
   */
  async load(from) {
    await this.#refresh();
    const { kinds, live } = this.#manifest;
    for (const { type } of kinds.flat()) {
      if (!MediaSource.isTypeSupported(type)) throw playerError(`this browser does not play ${type}`);
    }
    const key = kinds.flat().find((track) => track.key)?.key;
    if (key) await this.#unlock(key);
    this.#video.src = URL.createObjectURL(this.#source);
    await this.#event(this.#source, 'sourceopen');
    URL.revokeObjectURL(this.#video.src);
    this.#video.addEventListener('error', () => this.#options.failed(cannotDecode()), { signal: this.#controller.signal });
    for (const [first] of kinds) await this.#index(/** @type {Track} */ (first));
    if (this.#closed) return;
    const trackBuffers = kinds.map((tracks) => new TrackBuffer(tracks, this.#source.addSourceBuffer(/** @type {Track} */ (tracks[0]).type)));
    this.#trackBuffers = trackBuffers;
    this.#origin = live ? Math.floor(Math.min(...trackBuffers.map(({ segments }) => segments.start))) : 0;
    this.#source.duration = live ? Infinity : this.#end();
    this.#limit();
    for (const { buffer, segments } of trackBuffers) buffer.timestampOffset = -segments.shift - this.#origin;
    // A browser accepts a start position only after it knows the tracks.
    const known = this.#event(this.#video, 'loadedmetadata');
    await Promise.all([known, ...trackBuffers.map((trackBuffer) => this.#initialize(trackBuffer))]);
    this.#video.currentTime = Math.max(0, (from ?? (live ? this.livePoint : 0)) - this.#origin);
    this.#video.addEventListener('seeking', () => this.#jump(), { signal: this.#controller.signal });
    for (const trackBuffer of trackBuffers) void this.#fill(trackBuffer);
  }

  // -- What it shows

  /** Unix time of the video's second 0; null if it is no livestream. */
  get zero() {
    return this.#manifest?.live ? this.#origin : null;
  }

  /** Where a livestream is played if nobody goes back: a little before its end. */
  get livePoint() {
    return this.#end() - this.#manifest.delay + (performance.now() - this.#loaded) / 1000;
  }

  get bitrate() {
    return this.#trackBuffers.reduce((sum, { track }) => sum + track.bandwidth, 0);
  }

  get #pictures() {
    return this.#trackBuffers.find(({ track }) => track.type.startsWith('video'));
  }

  /** The qualities, the richest first. */
  get qualities() {
    const trackBuffer = this.#pictures;
    return (trackBuffer?.tracks ?? []).map((track) => ({ value: track.id, label: `${track.height}p`, chosen: track === trackBuffer?.track }));
  }

  /**
   * Shows another quality from the next segment on.
   * @param {string} id
   */
  async choose(id) {
    const trackBuffer = this.#pictures;
    const track = trackBuffer?.tracks.find((one) => one.id === id);
    if (!trackBuffer || !track) return;
    await this.#index(track);
    trackBuffer.track = track;
    trackBuffer.turn += 1;
    trackBuffer.next = this.#time + 2; // what comes from here on replaces what is ready
  }

  goLive() {
    this.#video.currentTime = this.livePoint - this.#origin;
  }

  async close() {
    this.#controller.abort();
    this.#video.removeAttribute('src');
    this.#video.load();
    await this.#keys?.close().catch(() => {});
    if (this.#keys) await this.#video.setMediaKeys(null).catch(() => {});
  }

  get #time() {
    return this.#origin + this.#video.currentTime;
  }

  #end() {
    return Math.min(...this.#trackBuffers.map(({ segments }) => segments.end));
  }

  // -- The manifest

  async #refresh() {
    this.#manifest = parseManifest(await this.#get({ url: this.#playlist }), this.#playlist);
    this.#loaded = performance.now();
    for (const trackBuffer of this.#trackBuffers) {
      const tracks = this.#manifest.kinds.find(([first]) => first?.type === trackBuffer.tracks[0]?.type) ?? [];
      const track = tracks.find(({ id }) => id === trackBuffer.track.id);
      if (!track) throw playerError('the playlist no longer has what is played');
      await this.#index(track);
      Object.assign(trackBuffer, { tracks, track });
    }
    if (this.#trackBuffers.length > 0) this.#limit();
  }

  /** Says how far a livestream can be sought. */
  #limit() {
    if (!this.#manifest.live || this.#source.readyState !== 'open') return;
    const start = Math.max(...this.#trackBuffers.map(({ segments }) => segments.start)) - this.#origin;
    this.#source.setLiveSeekableRange(Math.max(0, start), Math.max(0, start, this.#end() - this.#origin));
  }

  /** @param {Track} track */
  async #index(track) {
    track.segments ??= await track.index((address) => this.#get(address));
  }

  // -- Requests

  /**
   * @param {Address} address
   * @returns {Promise<ArrayBuffer>}
   */
  async #get({ url, range }) {
    const { signal } = this.#controller;
    for (let tried = 1; ; tried += 1) {
      const limit = AbortSignal.timeout(REQUEST_TIMEOUT * 1000);
      /** @type {Response | undefined} */
      let response;
      let text;
      try {
        response = await this.#options.fetch(url, { headers: range ? { Range: `bytes=${range}` } : {}, credentials: 'omit', signal: limit });
        if (response.ok) return await response.arrayBuffer();
        text = await response.text();
      } catch {
        // The error below says so.
      }
      const { status } = response ?? {};
      const error = playerError(`${url.pathname.split('/').at(-1)}: ${status ?? 'no answer'}`, { request: true, status: response?.ok ? 0 : status, text });
      if (error.code !== 'NO_ANSWER' && !(status && status >= 500)) throw error;
      if (tried === TRIES || this.#closed) throw error;
      await pause(Math.max(backOff(tried), Number(response?.headers.get('Retry-After') ?? 0)), signal);
    }
  }

  // -- Keys

  /**
   * One license request per start, for the key that the manifest names, before the first encrypted byte arrives.
   * @param {string} key
   */
  async #unlock(key) {
    const contents = (/** @type {string} */ kind) =>
      this.#manifest.kinds.flat().filter(({ type }) => type.startsWith(kind)).map(({ type }) => ({ contentType: type }));
    const wanted = { initDataTypes: ['keyids'], videoCapabilities: contents('video'), audioCapabilities: contents('audio') };
    const access = await navigator.requestMediaKeySystemAccess('org.w3.clearkey', [wanted]);
    const keys = await access.createMediaKeys();
    await this.#video.setMediaKeys(keys);
    this.#keys = keys.createSession();
    const asked = this.#event(this.#keys, 'message');
    await this.#keys.generateRequest('keyids', new TextEncoder().encode(JSON.stringify({ kids: [base64url(key)] })));
    await this.#keys.update(await this.#options.license((await asked).message));
  }

  // -- Segments

  /** @param {TrackBuffer} trackBuffer */
  async #initialize(trackBuffer) {
    const { id, initialization } = trackBuffer.track;
    const bytes = await this.#get(initialization);
    await this.#change(trackBuffer, (buffer) => buffer.appendBuffer(bytes));
    trackBuffer.initialized = id;
  }

  /** Play has jumped: what is ready stays, what is not is asked for from there. */
  #jump() {
    const { buffered, currentTime } = this.#video;
    for (const trackBuffer of this.#trackBuffers) {
      trackBuffer.turn += 1;
      trackBuffer.next = null;
      for (let i = 0; i < buffered.length; i += 1) {
        if (buffered.start(i) <= currentTime && currentTime < buffered.end(i)) trackBuffer.next = this.#origin + buffered.end(i);
      }
    }
  }

  /** @param {TrackBuffer} trackBuffer */
  async #fill(trackBuffer) {
    try {
      while (!this.#closed) {
        const segment = await this.#wanted(trackBuffer);
        if (segment) await this.#append(trackBuffer, segment);
        else await pause(0.2);
        this.#stepOverGap();
      }
    } catch (error) {
      if (!this.#closed) this.#options.failed(error);
    }
  }

  /** The next segment that is not ready yet, or null if there is enough. @param {TrackBuffer} trackBuffer */
  async #wanted(trackBuffer) {
    const time = trackBuffer.next ?? this.#time;
    if (time - this.#time > AHEAD) return null;
    const segment = trackBuffer.segments.at(time);
    if (segment) return segment;
    if (this.#manifest.live) {
      if (performance.now() - this.#loaded > this.#manifest.update * 1000) {
        this.#loaded = performance.now(); // one of the track buffers asks
        await this.#refresh();
      }
    } else if (this.#source.readyState === 'open' && this.#trackBuffers.every((one) => !one.buffer.updating && (one.next ?? 0) >= this.#end())) {
      this.#source.endOfStream();
    }
    return null;
  }

  /**
   * @param {TrackBuffer} trackBuffer
   * @param {Address & {end: number}} segment
   */
  async #append(trackBuffer, segment) {
    const { turn } = trackBuffer;
    if (trackBuffer.initialized !== trackBuffer.track.id) await this.#initialize(trackBuffer);
    const bytes = await this.#get(segment);
    if (this.#closed || turn !== trackBuffer.turn) return;
    await this.#change(trackBuffer, (buffer) => buffer.appendBuffer(bytes));
    // Another jump may have come while the browser took it.
    if (turn === trackBuffer.turn) trackBuffer.next = segment.end;
    const old = this.#video.currentTime - BEHIND;
    if (this.#manifest.live && old > 0) await this.#change(trackBuffer, (buffer) => buffer.remove(0, old));
  }

  /**
   * @param {TrackBuffer} trackBuffer
   * @param {(buffer: SourceBuffer) => void} change
   */
  async #change({ buffer }, change) {
    if (this.#closed) return;
    const done = this.#event(buffer, 'updateend');
    change(buffer);
    await done;
  }

  #stepOverGap() {
    const { buffered, currentTime, seeking } = this.#video;
    for (let i = 0; i < buffered.length; i += 1) {
      const wait = buffered.start(i) - currentTime;
      if (wait > 0 && wait < GAP && (seeking || !this.#isBuffered(currentTime + 0.1))) this.#video.currentTime = buffered.start(i) + 0.01;
    }
  }

  /** @param {number} at seconds of the video */
  #isBuffered(at) {
    const { buffered } = this.#video;
    for (let i = 0; i < buffered.length; i += 1) if (buffered.start(i) <= at && at <= buffered.end(i)) return true;
    return false;
  }
}

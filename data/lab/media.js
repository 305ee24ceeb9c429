// A player for the manifests of `manifest.js` on the browser's own MediaSource and Encrypted Media Extensions.
// Times are those of the presentation: seconds from the start, for a livestream Unix seconds.

import { parseManifest } from './manifest.js';

const AHEAD = 12; // seconds that are kept ready
const BEHIND = 30; // seconds that are kept to go back without a request
const GAP = 0.5; // seconds between two pieces that play steps over
const LIVE_SPAN = 30 * 86_400; // seconds that a livestream may be played without a new start
const TRIES = 3; // of a request that got no answer, or a 5xx
const KEY_SYSTEM = 'org.w3.clearkey';

/** Why nothing can be played: an answer of the service, or words. */
export class MediaFailure extends Error {
  constructor(message, answer) {
    super(message);
    this.answer = answer;
  }
}

const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

function event(target, name) {
  const over = new AbortController();
  const waiting = new Promise((done, failed) => {
    target.addEventListener(name, done, over);
    target.addEventListener('error', () => failed(new MediaFailure('The browser cannot decode this.')), over);
  });
  return waiting.finally(() => over.abort());
}

const base64url = (hex) =>
  btoa(String.fromCharCode(...hex.match(/../g).map((pair) => parseInt(pair, 16)))).replace(/[+/=]/g, (c) => ({ '+': '-', '/': '_' })[c] ?? '');

/** One kind of track: its buffer, the representation in use, and where the next segment begins. */
class Lane {
  constructor(tracks) {
    this.tracks = tracks;
    this.track = tracks[0];
    this.next = null; // null: where play stands
    this.turn = 0; // counts jumps, so that a segment that was asked for before one is not appended after it
    this.initialized = null;
  }
}

export class MediaPlayer extends EventTarget {
  #video;
  #service;
  #license;
  #source = new MediaSource();
  #lanes = [];
  #manifest;
  #playlist;
  #loaded = 0; // when the manifest was, by performance.now()
  #origin = 0; // presentation time of the video's second 0
  #keys = null;
  #closed = false;
  #ready = false;
  #seeked = () => this.#jump();

  /** `license` takes the bytes of a license request and resolves with an answer. */
  constructor(video, service, license) {
    super();
    this.#video = video;
    this.#service = service;
    this.#license = license;
  }

  /** Prepares play at a time, or at the live point or the start. Rejects with a `MediaFailure`. */
  async load(playlist, from) {
    this.#playlist = new URL(playlist);
    await this.#refresh();
    const kinds = Object.values(this.#manifest.tracks).filter((tracks) => tracks.length);
    for (const tracks of kinds) {
      for (const { type } of tracks) {
        if (!MediaSource.isTypeSupported(type)) throw new MediaFailure(`This browser does not play ${type}.`);
      }
    }
    const key = kinds.flat().find((track) => track.key)?.key;
    if (key) await this.#unlock(kinds, key);
    this.#video.src = URL.createObjectURL(this.#source);
    await event(this.#source, 'sourceopen');
    URL.revokeObjectURL(this.#video.src);
    const lanes = kinds.map((tracks) => new Lane(tracks));
    for (const lane of lanes) {
      await this.#index(lane.track);
      lane.buffer = this.#source.addSourceBuffer(lane.track.type);
    }
    this.#lanes = lanes;
    const { live } = this.#manifest;
    this.#origin = live ? Math.floor(lanes[0].track.timeline.start) : 0;
    this.#source.duration = live ? Infinity : this.#end();
    if (live) this.#source.setLiveSeekableRange(0, LIVE_SPAN);
    for (const lane of lanes) lane.buffer.timestampOffset = -lane.track.timeline.shift - this.#origin;
    // A browser takes a place to begin at only when it knows the tracks.
    const known = event(this.#video, 'loadedmetadata');
    await Promise.all([known, ...lanes.map((lane) => this.#initialize(lane))]);
    this.seek(from ?? (live ? this.livePoint : 0));
    this.#video.addEventListener('seeking', this.#seeked);
    for (const lane of lanes) this.#fill(lane);
  }

  // -- What it shows

  get live() {
    return Boolean(this.#manifest?.live);
  }

  get time() {
    return this.#origin + this.#video.currentTime;
  }

  /** Where a livestream is played if nobody goes back: a little before its end. */
  get livePoint() {
    return this.#end() - this.#manifest.delay + (performance.now() - this.#loaded) / 1000;
  }

  /** The server's time, as the manifest has it. */
  get serverTime() {
    const { now } = this.#manifest;
    return now === undefined ? Date.now() / 1000 : now + (performance.now() - this.#loaded) / 1000;
  }

  /** The video tracks, the richest first; undefined before the manifest has been read. */
  get pictures() {
    return this.#manifest?.tracks.video;
  }

  get bitrate() {
    return this.#lanes.reduce((sum, { track }) => sum + track.bandwidth, 0);
  }

  /** Seconds that are ready from the present on. */
  get ahead() {
    const { buffered, currentTime } = this.#video;
    for (let i = 0; i < buffered.length; i += 1) {
      if (buffered.start(i) <= currentTime && currentTime <= buffered.end(i)) return buffered.end(i) - currentTime;
    }
    return 0;
  }

  seek(time) {
    this.#video.currentTime = Math.max(0, time - this.#origin);
  }

  /** Shows another video track from the next segment on. */
  async choose(id) {
    const lane = this.#lanes.find(({ tracks }) => tracks === this.pictures);
    const track = lane?.tracks.find((one) => one.id === id);
    if (!track) return;
    await this.#index(track);
    lane.track = track;
    lane.turn += 1;
    lane.next = this.time + 2; // what comes from here on replaces what is ready
  }

  async close() {
    this.#closed = true;
    this.#video.removeEventListener('seeking', this.#seeked);
    this.#video.removeAttribute('src');
    this.#video.load();
    await this.#keys?.close().catch(() => {});
    await this.#video.setMediaKeys?.(null).catch(() => {});
  }

  // -- The manifest

  async #refresh() {
    const bytes = await this.#get(this.#playlist);
    this.#manifest = parseManifest(bytes, this.#playlist);
    this.#loaded = performance.now();
    for (const lane of this.#lanes) {
      const tracks = Object.values(this.#manifest.tracks).find((list) => list[0]?.type === lane.tracks[0].type);
      const track = tracks?.find(({ id }) => id === lane.track.id);
      if (!track) throw new MediaFailure('The playlist no longer has what is played.');
      track.timeline = await track.index();
      Object.assign(lane, { tracks, track });
    }
  }

  #end() {
    return Math.min(...this.#lanes.map(({ track }) => track.timeline.end));
  }

  // -- Requests

  async #get(url, range) {
    for (let tried = 1; ; tried += 1) {
      const answer = await this.#service.media(url, range);
      if (answer.ok) return answer.body;
      const mayRepeat = answer.status === 0 || answer.status === 429 || answer.status >= 500;
      if (!mayRepeat || tried === TRIES || this.#closed) throw new MediaFailure(answer.message, answer);
      await pause(answer.retryAfter ?? tried);
    }
  }

  // -- Keys

  /** One license request per start, for the key that the manifest names, before the first encrypted byte arrives. */
  async #unlock(kinds, key) {
    if (!navigator.requestMediaKeySystemAccess) {
      throw new MediaFailure('Browsers decrypt only on https:// and on localhost. Open this page there.');
    }
    const capabilities = (kind) => kinds.flat().filter(({ type }) => type.startsWith(kind));
    const contents = (kind) => capabilities(kind).map(({ type }) => ({ contentType: type }));
    const wanted = { initDataTypes: ['keyids'], videoCapabilities: contents('video'), audioCapabilities: contents('audio') };
    const access = await navigator.requestMediaKeySystemAccess(KEY_SYSTEM, [wanted]).catch(() => {
      throw new MediaFailure('This browser has no Clear Key decryption.');
    });
    const keys = await access.createMediaKeys();
    await this.#video.setMediaKeys(keys);
    this.#keys = keys.createSession();
    const asked = event(this.#keys, 'message');
    await this.#keys.generateRequest('keyids', new TextEncoder().encode(JSON.stringify({ kids: [base64url(key)] })));
    const answer = await this.#license((await asked).message);
    if (!answer.ok) throw new MediaFailure(answer.message, answer);
    await this.#keys.update(new TextEncoder().encode(JSON.stringify(answer.body)));
  }

  // -- Segments

  async #index(track) {
    track.timeline ??= await track.index((url, range) => this.#get(url, range));
  }

  async #initialize(lane) {
    const { id, initialization } = lane.track;
    const bytes = await this.#get(initialization.url, initialization.range);
    await this.#change(lane, (buffer) => buffer.appendBuffer(bytes));
    lane.initialized = id;
  }

  /** Play has jumped: what is ready stays, what is not is asked for from there. */
  #jump() {
    const { buffered, currentTime } = this.#video;
    for (const lane of this.#lanes) {
      lane.turn += 1;
      lane.next = null;
      for (let i = 0; i < buffered.length; i += 1) {
        const inside = buffered.start(i) <= currentTime && currentTime < buffered.end(i);
        if (inside) lane.next = this.#origin + buffered.end(i);
      }
    }
  }

  async #fill(lane) {
    try {
      while (!this.#closed) {
        const segment = await this.#wanted(lane);
        if (segment) await this.#append(lane, segment);
        else await pause(0.2);
        this.#stepOverGap();
      }
    } catch (error) {
      if (this.#closed) return;
      const failure = error instanceof MediaFailure ? error : new MediaFailure('The browser cannot play this.');
      this.dispatchEvent(new CustomEvent('failure', { detail: failure }));
    }
  }

  /** The next segment that is not ready yet, or null if there is enough. */
  async #wanted(lane) {
    const time = lane.next ?? this.time;
    if (time - this.time > AHEAD) return null;
    const segment = lane.track.timeline.at(time);
    if (segment) return segment;
    if (this.#manifest.live) {
      if (performance.now() - this.#loaded > this.#manifest.update * 1000) {
        this.#loaded = performance.now(); // one of the lanes asks
        await this.#refresh();
      }
    } else if (this.#source.readyState === 'open' && this.#lanes.every((one) => !one.buffer.updating && one.next >= this.#end())) {
      this.#source.endOfStream();
    }
    return null;
  }

  async #append(lane, segment) {
    const { turn } = lane;
    if (lane.initialized !== lane.track.id) await this.#initialize(lane);
    const bytes = await this.#get(segment.url, segment.range);
    if (this.#closed || turn !== lane.turn) return;
    await this.#change(lane, (buffer) => buffer.appendBuffer(bytes));
    // Another jump may have come while the browser took it.
    if (turn === lane.turn) lane.next = segment.end;
    const old = this.#video.currentTime - BEHIND;
    if (this.#manifest.live && old > 0) await this.#change(lane, (buffer) => buffer.remove(0, old));
    if (!this.#ready && this.#lanes.every((one) => one.next !== null)) {
      this.#ready = true;
      this.dispatchEvent(new Event('ready'));
    }
  }

  async #change(lane, change) {
    if (this.#closed) return;
    const done = event(lane.buffer, 'updateend');
    change(lane.buffer);
    await done;
  }

  /** Sound and pictures of a segment do not begin with the same sample: a small gap must not hold play up. */
  #stepOverGap() {
    const { buffered, currentTime, seeking } = this.#video;
    for (let i = 0; i < buffered.length; i += 1) {
      const wait = buffered.start(i) - currentTime;
      if (wait > 0 && wait < GAP && (seeking || this.ahead < 0.1)) this.#video.currentTime = buffered.start(i) + 0.01;
    }
  }
}

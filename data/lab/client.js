// A client as the interface asks for one: it plays one thing at a time, sends a heartbeat every ten seconds, follows
// the programmes of a livestream, asks for the PIN, and does what each answer says.

import { MediaFailure, MediaPlayer } from './media.js';

// Seconds after a programme's stop at which the next one is asked for: offsets and the server's time are whole seconds,
// and must not fall back into the programme before.
const LATE = 3;
const LIVE_WITHIN = 60; // seconds behind the server's time that still are live
const RETRY_SECONDS = 10; // after an answer that says nothing better

export class Client extends EventTarget {
  repeat = true; // films begin again at their end
  #service;
  #telemetry;
  #video;
  #askPin;
  #viewing = null;

  /** `askPin` shows a field; it resolves with what was entered, or null. */
  constructor(service, telemetry, video, askPin) {
    super();
    Object.assign(this, { service });
    this.#service = service;
    this.#telemetry = telemetry;
    this.#video = video;
    this.#askPin = askPin;
    video.addEventListener('timeupdate', () => this.#follow());
    video.addEventListener('ended', () => this.#ended());
    video.addEventListener('waiting', () => this.#stall());
    video.addEventListener('playing', () => this.#unstall());
  }

  get viewing() {
    return this.#viewing;
  }

  // -- What the viewer does

  /**
   * Plays `title`: {assetId, name, encrypted, live, since}. `since` is the Unix time of a catch-up's first second.
   * `offset` time-shifts a livestream.
   */
  async start(title, { offset = 0 } = {}) {
    await this.stop();
    this.#say(`Starting ${title.name} …`);
    const viewing = { ...title, offset, state: 'starting', held: null, pins: 0 };
    this.#viewing = viewing;
    this.#changed();
    try {
      await this.#begin(viewing);
    } catch (error) {
      await this.#fail(viewing, error);
    }
  }

  async #begin(viewing) {
    const entitled = await this.#entitle(viewing, { offset: viewing.offset });
    if (!entitled || this.#viewing !== viewing) return this.#drop(viewing);
    const asked = this.#service.playbackHeaders(entitled.token, viewing.encrypted);
    const answer = await this.#service.preflight(viewing.assetId, asked);
    if (!answer.ok) {
      this.#say(refusal(answer));
      return this.#drop(viewing);
    }
    const { playlist, license, heartbeat, heartbeatInterval, headers } = answer.body;
    Object.assign(viewing, {
      heartbeat,
      interval: heartbeatInterval,
      headers: { ...asked, ...headers },
      session: headers[this.#service.name('Play-Session')],
      program: entitled.program,
    });
    if (this.#viewing !== viewing) return this.#end(viewing);
    viewing.player = new MediaPlayer(this.#video, this.#service, (challenge) => this.#license(license, challenge));
    viewing.player.addEventListener('failure', ({ detail }) => this.#fail(viewing, detail));
    viewing.player.addEventListener('ready', () => this.#play(viewing));
    await viewing.player.load(playlist, viewing.offset ? Date.now() / 1000 + viewing.offset : undefined);
    if (this.#viewing === viewing) this.#changed();
    return undefined;
  }

  /** A license request has no content type: it is the browser's own bytes. */
  #license(address, challenge) {
    return this.#service.asUser('POST', address, { headers: this.#viewing?.headers, body: challenge });
  }

  /** The session ends, and its stream is free at once. */
  async stop() {
    const viewing = this.#viewing;
    if (!viewing) return;
    this.#drop(viewing);
    this.#say('');
    await this.#end(viewing);
  }

  pause() {
    const viewing = this.#viewing;
    if (!viewing?.player || viewing.held) return;
    const paused = !this.#video.paused;
    if (paused) this.#video.pause();
    else this.#video.play().catch(() => {});
    viewing.state = paused ? 'paused' : 'playing';
    this.#event(viewing, paused ? 'playback_paused' : 'playback_resumed');
    this.#changed();
  }

  /** Goes to a time of the presentation; a livestream may need another programme's entitlement there. */
  async seek(time) {
    const viewing = this.#viewing;
    if (!viewing?.player) return;
    if (!viewing.live) return void viewing.player.seek(time);
    const to = Math.min(time, viewing.player.livePoint);
    if (await this.#renew(viewing, to)) this.#goOn(viewing, to);
  }

  /** Where the viewer is: Unix seconds live and in catch-up, else seconds from the start. */
  position() {
    const { player, held, since = 0 } = this.#viewing;
    if (held) return held.position + (this.#viewing.live ? (performance.now() - held.from) / 1000 : 0);
    return player.live ? player.time : since + player.time;
  }

  // -- Heartbeats

  #play(viewing) {
    if (this.#viewing !== viewing) return;
    viewing.state = 'playing';
    this.#say('');
    this.#video.play().catch(() => {}); // a browser that wants a click first: the button is there
    this.#event(viewing, 'playback_started');
    this.#beat(viewing);
    this.#changed();
  }

  async #beat(viewing) {
    if (this.#viewing !== viewing) return;
    viewing.nextBeat = Date.now() + viewing.interval * 1000;
    const answer = await this.heartbeat(viewing);
    if (this.#viewing !== viewing) return;
    if (answer.status === 429 || answer.status === 503) {
      viewing.nextBeat = Date.now() + Math.max(answer.retryAfter ?? RETRY_SECONDS, 1) * 1000;
    }
    viewing.timer = setTimeout(() => this.#beat(viewing), viewing.nextBeat - Date.now());
    await this.#heed(viewing, answer);
    this.#changed();
  }

  /** One heartbeat, of the log-in that the service holds. */
  heartbeat(viewing) {
    const name = (rest) => this.#service.name(`Play-${rest}`);
    return this.#service.asUser('POST', viewing.heartbeat, {
      headers: {
        ...viewing.headers,
        [name('Timestamp')]: String(Math.floor(this.position())),
        [name('Bitrate')]: String(viewing.player.bitrate),
        [name('ResolutionWidth')]: String(this.#video.videoWidth),
        [name('ResolutionHeight')]: String(this.#video.videoHeight),
      },
    });
  }

  async #heed(viewing, answer) {
    const { status, code } = answer;
    if (status === 200) {
      viewing.interval = answer.body.interval;
      // What was held for its rights has made room for another programme.
      if (viewing.held?.why === 'rights' && (await this.#renew(viewing))) this.#goOn(viewing, this.position());
    } else if (status === 552 || code === 'NO_LIVE_RIGHTS' || code === 'NOT_AVAILABLE') {
      this.#hold(viewing, 'rights');
      this.#say(answer.message);
    } else if (code === 'PIN_CODE_REQUIRED' || code === 'ENTITLEMENT_EXPIRED' || code === 'ENTITLEMENT_INVALID') {
      if (!viewing.asking && (await this.#renew(viewing)) && viewing.held) this.#goOn(viewing, this.position());
    } else if ([401, 403, 404, 410].includes(status)) {
      this.#drop(viewing);
      this.#say(refusal(answer));
    }
    // Anything else says nothing about the session: the next heartbeat may do better.
  }

  // -- Programmes and their PINs

  /** A new programme has begun: the client asks whether it may go on. */
  async #follow() {
    const viewing = this.#viewing;
    const stop = viewing?.program?.stop;
    if (!viewing?.live || viewing.state !== 'playing' || viewing.held || !(this.position() >= stop + LATE)) return;
    viewing.program = undefined;
    if ((await this.#renew(viewing)) && viewing.held) this.#goOn(viewing, this.position());
  }

  /** A new entitlement for the running session; whether there is one. */
  async #renew(viewing, position = this.position()) {
    const behind = position - viewing.player.serverTime;
    const offset = viewing.live && behind < -LIVE_WITHIN ? Math.floor(behind) : 0;
    const entitled = await this.#entitle(viewing, { offset, session: viewing.session });
    if (!entitled || this.#viewing !== viewing) return false;
    viewing.headers[this.#service.name('Play-EntitlementId')] = entitled.token;
    viewing.program = entitled.program;
    return true;
  }

  /** Asks for the PIN as long as one is wanted; null if refused, which is shown. */
  async #entitle(viewing, options) {
    let answer = await this.#service.entitle(viewing.assetId, options);
    while (answer.code === 'PIN_CODE_REQUIRED' || answer.code === 'PIN_CODE_WRONG') {
      if (viewing.player) this.#hold(viewing, 'pin');
      this.#say(refusal(answer));
      viewing.asking = true;
      const pinCode = await this.#askPin();
      viewing.asking = false;
      if (pinCode === null || this.#viewing !== viewing) return null;
      answer = await this.#service.entitle(viewing.assetId, { ...options, pinCode });
    }
    this.#say(answer.ok ? '' : refusal(answer));
    if (answer.ok) return answer.body;
    if (viewing.player && answer.status === 403) this.#hold(viewing, 'rights');
    return null;
  }

  // -- Standing still, going on, and the end

  /** Play stands still and the session lives on. */
  #hold(viewing, why) {
    if (!viewing.held) {
      this.#event(viewing, 'playback_paused', { playback_held: why });
      viewing.held = { position: this.position(), from: performance.now() };
    }
    viewing.held.why = why;
    viewing.state = why === 'pin' ? 'waiting for the PIN' : 'held: no rights here';
    this.#video.pause();
    this.#changed();
  }

  #goOn(viewing, position) {
    if (viewing.held) this.#event(viewing, 'playback_resumed');
    viewing.held = null;
    viewing.state = 'playing';
    viewing.player.seek(Math.min(position, viewing.player.livePoint));
    this.#video.play().catch(() => {});
    this.#say('');
    this.#changed();
  }

  #ended() {
    if (!this.#viewing) return;
    if (this.repeat && !this.#viewing.since) {
      this.#viewing.player.seek(0);
      this.#video.play().catch(() => {});
    } else this.stop();
  }

  #stall() {
    const viewing = this.#viewing;
    if (viewing?.state === 'playing') viewing.stalled = performance.now();
  }

  #unstall() {
    const viewing = this.#viewing;
    if (!viewing?.stalled) return;
    this.#event(viewing, 'playback_buffering', { duration: Math.round(performance.now() - viewing.stalled) });
    viewing.stalled = undefined;
  }

  async #fail(viewing, error) {
    if (this.#viewing !== viewing) return;
    if (!(error instanceof MediaFailure)) throw error;
    this.#drop(viewing);
    this.#say(refusal(error.answer ?? error));
    // The media of a session end with it, so they may tell of its end before a heartbeat does.
    if (error.answer?.code !== 'SESSION_ENDED') await this.#end(viewing);
  }

  /** Lets go of the player. */
  #drop(viewing) {
    if (this.#viewing !== viewing) return;
    if (viewing.player && viewing.state !== 'starting') this.#event(viewing, 'playback_stopped');
    this.#viewing = null;
    clearTimeout(viewing.timer);
    this.#video.pause();
    viewing.player?.close();
    this.dispatchEvent(new Event('dropped'));
    this.#changed();
  }

  async #end(viewing) {
    if (!viewing.session || viewing.over) return;
    viewing.over = true;
    await this.#service.call('DELETE', viewing.heartbeat, { headers: viewing.headers, keepalive: true });
    await this.#telemetry.send();
  }

  #event(viewing, action, context = {}) {
    this.#telemetry.report(action, { asset_id: viewing.assetId, playback_position: this.position(), ...context });
  }

  #say(text) {
    this.dispatchEvent(new CustomEvent('message', { detail: text }));
  }

  #changed() {
    this.dispatchEvent(new Event('change'));
  }
}

/** The words for the viewer, with what the details add. */
function refusal(answer) {
  const { reason, attemptsLeft, sessions, retryAfter } = answer.body?.error?.details ?? {};
  const more = [
    reason,
    attemptsLeft !== undefined && `${attemptsLeft} attempts left`,
    sessions?.length && `playing: ${sessions.map((one) => `${one.assetId} on ${one.deviceModel}`).join(', ')}`,
    retryAfter !== undefined && `try again in ${retryAfter} s`,
  ].filter(Boolean);
  return `${answer.message || 'This cannot be played at present.'}${more.length ? ` (${more.join('; ')})` : ''}`;
}

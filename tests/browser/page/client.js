// A partner's page as its developer would write it. It plays one thing at a time with the player that it is told,
// beats while it plays, and does what the interface answers: shows the words for viewers, stops and goes on, asks for
// the PIN. It knows nothing of the test, which calls `client` and looks at the page.

import { StopWatch } from './stopwatch.js';

const UNEXPLAINED = 'This cannot be played at present.';
// Seconds after a program's stop at which the next one is asked for: offsets and the server's time are whole seconds,
// and must not fall back into the program before.
const LATE = 3;

export class Client {
  service;
  video;
  heartbeatInterval = null; // seconds; overrides what the interface answers
  failures = []; // what players reported: their own code, and where they stood
  watch = null; // the stop-watch of the last play with reports
  #message;
  #pin;
  #viewing = null;

  constructor(service, video, message, pin) {
    this.service = service;
    this.video = video;
    this.#message = message;
    this.#pin = pin;
    video.addEventListener('canplay', () => this.#begin());
    video.addEventListener('timeupdate', () => this.#followProgram());
    video.addEventListener('ended', () => this.stop());
  }

  // -- What the viewer does

  /** Entitlement, with the PIN if it is asked for, preflight, play; a refusal is shown. */
  async start(assetId, options) {
    const prepared = await this.prepare(assetId, options);
    if (prepared) await this.play(prepared);
  }

  /**
   * Up to the addresses of playlist, license and heartbeat; null if that was refused. `offset` time-shifts a
   * livestream; `since` is the Unix time at which a finished broadcast began, as the schedule tells it. `reports` lets
   * the player report by CMCD, with `states` the page too.
   */
  async prepare(assetId, { player, drm, protocol, offset, since = 0, reports }) {
    await this.stop();
    this.#say('');
    const { Player } = await import(`./players/${player}.js`);
    const entitled = await this.#entitle(assetId, { offset });
    if (!entitled) return null;
    const { status, body } = await this.service.preflight(assetId, entitled.token, drm, protocol);
    if (status === 200) return { assetId, Player, addresses: body, program: entitled.program, offset, since, reports };
    this.#say(body.error.user_message);
    return null;
  }

  async play({ assetId, Player, addresses, program, offset, since, reports }) {
    const player = new Player(
      this.video,
      (failure) => this.#failed(viewing, failure),
      () => this.#viewing === viewing && this.stop(),
    );
    const viewing = {
      assetId,
      addresses,
      player,
      live: program !== undefined, // only an entitlement to a livestream names the program
      since,
      programStop: program?.stop,
      interval: addresses.heartbeatInterval,
      serverAhead: 0, // seconds, of this machine's clock
      held: null, // while play is held: why, where it stood, and from when on
      timer: null, // of the next heartbeat
    };
    this.#viewing = viewing;
    if (reports) {
      player.report(addresses.cmcd, reports);
      this.watch = new StopWatch(this.video, () => player.bitrate());
    }
    const from = offset === undefined ? undefined : Date.now() / 1000 + offset;
    await player.load(addresses, () => this.service.licenseHeaders(), from);
  }

  /** The session ends, and its slot is free at once. */
  async stop() {
    this.#pin.withdraw();
    const viewing = this.#viewing;
    if (!viewing) return;
    await this.#close();
    await this.service.end(viewing.addresses.heartbeat);
  }

  /** Takes a livestream to another moment, in Unix seconds. */
  async shift(to) {
    const viewing = this.#viewing;
    if (await this.#renew(viewing, to)) this.#goOn(viewing, to);
  }

  /**
   * Where the viewer is: Unix seconds of what was broadcast, else seconds from the start. A livestream moves on while
   * it is held.
   */
  position() {
    if (!this.#viewing) return null;
    const { live, held } = this.#viewing;
    if (!held) return this.#zero(this.#viewing) + this.video.currentTime;
    return held.position + (live ? (performance.now() - held.from) / 1000 : 0);
  }

  /** The position of the video's second 0. */
  #zero({ player, since }) {
    return player.zero() ?? since;
  }

  // -- The heartbeat

  /** The player has its license and the first pictures. */
  #begin() {
    const viewing = this.#viewing;
    if (!viewing || viewing.timer !== null) return;
    this.#goOn(viewing);
    viewing.timer = setTimeout(() => this.#beat(viewing));
  }

  async #beat(viewing) {
    const { addresses, player } = viewing;
    const answer = await this.service.heartbeat(addresses.heartbeat, {
      position: this.position(),
      bitrate: player.bitrate(),
      width: this.video.videoWidth,
      height: this.video.videoHeight,
    });
    if (this.#viewing !== viewing) return;
    const pause = this.heartbeatInterval ?? viewing.interval;
    viewing.timer = setTimeout(() => this.#beat(viewing), pause * 1000);
    await this.#heed(viewing, answer);
  }

  async #heed(viewing, { status, body }) {
    if (status === 200) {
      viewing.interval = body.interval;
      viewing.serverAhead = body.serverTime - Date.now() / 1000;
      // What was held for its rights has made room for another program.
      const goesOn = viewing.held?.why === 'rights' && this.#isSeekable(viewing, this.position());
      if (goesOn && (await this.#renew(viewing))) this.#goOn(viewing, this.position());
    } else if (status === 552) {
      this.#hold('rights');
      this.#say(body.error.user_message);
    } else if (body.error.code === 'PIN_CODE_REQUIRED') {
      if (!this.#pin.open && (await this.#renew(viewing))) this.#goOn(viewing, this.position());
    } else if (status === 401 && (await this.service.logInAgain()).status === 200) {
      // The session lives on with the new token.
    } else if ([401, 403, 404, 410].includes(status)) {
      await this.#close();
      this.#say(body.error.user_message);
    }
    // Anything else is a mishap, and the next beat may do better.
  }

  // -- Programs and their PINs

  /** A new program has begun: the player must ask whether it may go on. */
  async #followProgram() {
    const viewing = this.#viewing;
    const plays = viewing && viewing.timer !== null && !viewing.held;
    if (!plays || !(this.position() >= viewing.programStop + LATE)) return;
    viewing.programStop = undefined;
    // A hold is for the PIN alone: of live rights the heartbeat tells.
    if ((await this.#renew(viewing)) && viewing.held) this.#goOn(viewing, this.position());
  }

  /** A new entitlement for the running session; whether there is one. */
  async #renew(viewing, position = this.position()) {
    const now = Date.now() / 1000 + viewing.serverAhead;
    const offset = viewing.live ? Math.min(0, Math.floor(position - now)) : undefined;
    const entitled = await this.#entitle(viewing.assetId, { offset, session: true });
    if (!entitled || this.#viewing !== viewing) return false;
    this.service.renew(entitled.token);
    viewing.programStop = entitled.program?.stop;
    return true;
  }

  /** Asks for the PIN as long as one is wanted. Null if refused, which is shown, or if the question was withdrawn. */
  async #entitle(assetId, options) {
    let answer = await this.service.entitle(assetId, options);
    while (['PIN_CODE_REQUIRED', 'PIN_CODE_WRONG'].includes(answer.body.error?.code)) {
      if (this.#viewing) this.#hold('pin');
      this.#say(answer.body.error.user_message);
      const pinCode = await this.#pin.ask();
      if (pinCode === null) return null;
      answer = await this.service.entitle(assetId, { ...options, pinCode });
    }
    this.#say(answer.body.error?.user_message ?? '');
    return answer.status === 200 ? answer.body : null;
  }

  // -- Standing still, going on, and the end

  /** Play stands still and the session lives on. */
  #hold(why) {
    this.#viewing.held = { why, position: this.position(), from: performance.now() };
    this.video.pause();
  }

  /**
   * Whether the video can be sought to a position. Players extend that range once a second, or later on a busy machine. A seek
   * beyond its end goes to the end, which may lie in the program before.
   */
  #isSeekable(viewing, position) {
    const { seekable } = this.video;
    return seekable.length > 0 && position - this.#zero(viewing) <= seekable.end(seekable.length - 1);
  }

  /** Play goes on, of a livestream at a position. */
  #goOn(viewing, position) {
    viewing.held = null;
    if (viewing.live && position !== undefined) this.video.currentTime = position - this.#zero(viewing);
    this.video.play().catch(() => {}); // refused where a page may not play by itself: the viewer will
  }

  async #failed(viewing, { code, error }) {
    if (this.#viewing !== viewing) return;
    this.failures.push({ code, position: this.position() });
    this.#say(error?.user_message ?? UNEXPLAINED);
    await this.stop();
  }

  async #close() {
    const { player, timer } = this.#viewing;
    this.#viewing = null;
    clearTimeout(timer);
    this.#pin.withdraw();
    this.video.pause();
    await player.destroy();
  }

  #say(text) {
    this.#message.textContent = text;
  }
}

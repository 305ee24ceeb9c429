// dash.js, unmodified: DASH, Clear Key.
import { errorIn } from './failure.js';

const { events } = dashjs.MediaPlayer;

export class Player {
  static version = dashjs.Version;
  #player = dashjs.MediaPlayer().create();
  #video;

  constructor(video, failed, ended) {
    this.#video = video;
    // dash.js looks five times a second whether play has reached the end. If it sees the end before the video does, it pauses the
    // video, whose `ended` event then does not occur. `ended` destroys the player, so its own listeners come first.
    this.#player.on(events.PLAYBACK_ENDED, ({ isLast }) => isLast && queueMicrotask(ended));
    this.#player.on(events.ERROR, ({ error }) => {
      failed({ code: error.code, error: errorIn(error.data?.serverResponse ?? error.data?.response?.data) });
    });
  }

  /** Lets the player report by CMCD, as docs/playback.md says. */
  report({ url, version }) {
    const target = { url, events: ['ps', 'e', 't'], enabledKeys: ['br', 'ec', 'msd', 'sn', 'sta'], interval: 10 };
    this.#player.updateSettings({ streaming: { cmcd: { enabled: true, version, enabledKeys: [], eventTargets: [target] } } });
  }

  /**
   * `headers` gives what a license request carries. `from` is where a livestream begins, in Unix seconds, if not at the present. Failures
   * are reported, not thrown.
   */
  async load({ playlist, license }, headers, from) {
    this.#player.initialize();
    this.#player.attachView(this.#video);
    if (license) {
      // dash.js sends cookies along as soon as it sees an Authorization header, unless it is told not to.
      const server = { serverURL: license, httpRequestHeaders: headers(), withCredentials: false };
      this.#player.setProtectionData({ 'org.w3.clearkey': server });
    }
    this.#player.attachSource(playlist, from === undefined ? NaN : `posix:${from}`);
  }

  /** The Unix time of the video's second 0; null if the presentation has no wall clock. */
  zero() {
    const live = this.#player.isReady() && this.#player.isDynamic();
    return live ? this.#player.timeAsUTC() - this.#player.time() : null;
  }

  /** Bits per second. */
  bitrate() {
    const of = (type) => this.#player.getCurrentRepresentationForType(type)?.bandwidth ?? 0;
    return of('video') + of('audio');
  }

  destroy() {
    this.#player.destroy();
  }
}

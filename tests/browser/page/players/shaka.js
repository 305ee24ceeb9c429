// Shaka Player, unmodified: DASH and HLS, Clear Key.
import { reportStates } from '../reports.js';
import { errorIn } from './failure.js';

const { CRITICAL } = shaka.util.Error.Severity;
const { BAD_HTTP_STATUS, LICENSE_REQUEST_FAILED } = shaka.util.Error.Code;
const { LICENSE } = shaka.net.NetworkingEngine.RequestType;

export class Player {
  static version = shaka.Player.version;
  #player = new shaka.Player();
  #video;
  #states = null; // the page's own reports of the video's states
  #failed;

  constructor(video, failed) {
    this.#video = video;
    this.#failed = failed;
    this.#player.addEventListener('error', ({ detail }) => this.#report(detail));
  }

  /** Lets the player report by CMCD, and the page what the minified build leaves out, as docs/playback.md says. */
  report({ url, version }, { states }) {
    const target = { url, events: ['ps', 'bc', 'e', 't'], includeKeys: ['br', 'ec', 'msd', 'sn', 'sta'], interval: 10 };
    this.#player.configure('cmcd', { enabled: true, version, includeKeys: ['cen'], eventTargets: [target] });
    if (!states) return;
    this.#states = reportStates(this.#video, { url }, () => this.#player.isBuffering());
    const unheld = () => (this.#video.paused ? 'a' : 'p'); // the player also stops buffering when it is destroyed
    this.#player.addEventListener('buffering', ({ buffering }) => this.#states.say(buffering ? 'r' : unheld()));
  }

  /**
   * `headers` gives what a license request carries. `from` is where a livestream begins, in Unix seconds, if not at the present: a seek
   * after the first pictures could be undone, since the player jumps over gaps. Failures are reported, not thrown.
   */
  async load({ playlist, license }, headers, from) {
    // When a livestream began is for its manifest to say, not for a guess by what has come: heartbeats go by it.
    this.#player.configure('manifest.dash.autoCorrectDrift', false);
    if (license) this.#player.configure({ drm: { servers: { 'org.w3.clearkey': license } } });
    this.#player.getNetworkingEngine().registerRequestFilter((type, request) => {
      if (type === LICENSE) Object.assign(request.headers, headers());
    });
    try {
      await this.#player.attach(this.#video);
      await this.#player.load(playlist, from === undefined ? null : new Date(from * 1000));
    } catch (error) {
      this.#report(error);
    }
  }

  #report(error) {
    if (error.severity !== CRITICAL || error.code === shaka.util.Error.Code.LOAD_INTERRUPTED) return;
    const cause = error.code === LICENSE_REQUEST_FAILED ? error.data[0] : error;
    const text = cause?.code === BAD_HTTP_STATUS ? cause.data[2] : undefined;
    this.#failed({ code: error.code, error: errorIn(text) });
  }

  /** The Unix time of the video's second 0; null if the presentation has no wall clock. */
  zero() {
    const start = this.#player.isLive() ? this.#player.getPresentationStartTimeAsDate() : null;
    return start && start.getTime() / 1000;
  }

  /** Bits per second. */
  bitrate() {
    return this.#player.getStats().streamBandwidth || 0;
  }

  destroy() {
    this.#states?.stop();
    return this.#player.destroy();
  }
}

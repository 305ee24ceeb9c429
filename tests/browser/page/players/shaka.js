// Shaka Player, unmodified: DASH and HLS, Clear Key.
import { errorIn } from './failure.js';

const { CRITICAL } = shaka.util.Error.Severity;
const { BAD_HTTP_STATUS, LICENSE_REQUEST_FAILED } = shaka.util.Error.Code;
const { LICENSE } = shaka.net.NetworkingEngine.RequestType;

export class Player {
  static version = shaka.Player.version;
  #player = new shaka.Player();
  #video;
  #failed;

  constructor(video, failed) {
    this.#video = video;
    this.#failed = failed;
    this.#player.addEventListener('error', ({ detail }) => this.#report(detail));
  }

  /** `headers` gives what a license request carries. Failures are reported, not thrown. */
  async load({ playlist, license }, headers) {
    // When a livestream began is for its manifest to say, not for a guess by what has come: heartbeats go by it.
    this.#player.configure('manifest.dash.autoCorrectDrift', false);
    if (license) this.#player.configure({ drm: { servers: { 'org.w3.clearkey': license } } });
    this.#player.getNetworkingEngine().registerRequestFilter((type, request) => {
      if (type === LICENSE) Object.assign(request.headers, headers());
    });
    try {
      await this.#player.attach(this.#video);
      await this.#player.load(playlist);
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
    return this.#player.destroy();
  }
}

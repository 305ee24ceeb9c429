// hls.js, unmodified: HLS in the clear.
import { errorIn } from './failure.js';

export class Player {
  static version = Hls.version;
  #player = new Hls();
  #video;
  #zero = null;

  constructor(video, failed) {
    this.#video = video;
    this.#player.on(Hls.Events.ERROR, (_, { fatal, details, networkDetails }) => {
      if (fatal) failed({ code: details, error: errorIn(networkDetails?.responseText) });
    });
  }

  /** Begins at the present, since hls.js takes no Unix time as its start. Failures of the player are reported, not thrown. */
  async load({ playlist }, headers, from) {
    if (from !== undefined) throw new Error('hls.js begins a livestream at the present only');
    this.#player.attachMedia(this.#video);
    this.#player.loadSource(playlist);
  }

  /** The Unix time of the video's second 0; null if the presentation has no wall clock. */
  zero() {
    const date = this.#player.playingDate; // none while what was sought is still on its way
    if (date) this.#zero = date.getTime() / 1000 - this.#video.currentTime;
    return this.#zero;
  }

  /** Bits per second. */
  bitrate() {
    return this.#player.levels[this.#player.currentLevel]?.bitrate ?? 0;
  }

  destroy() {
    this.#player.destroy();
  }
}

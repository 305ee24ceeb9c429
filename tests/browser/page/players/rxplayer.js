// RxPlayer, unmodified: DASH, Clear Key.
import RxPlayer from '/npm/rx-player/index.js';
import { errorIn } from './failure.js';

/** The license, or an error that has the interface's answer. */
async function fetchLicense(address, headers, challenge) {
  const answer = await fetch(address, { method: 'POST', headers, body: challenge });
  if (answer.ok) return answer.arrayBuffer();
  throw Object.assign(new Error(`the license was answered ${answer.status}`), { answer: await answer.text(), noRetry: true });
}

export class Player {
  static version = RxPlayer.version;
  #player;

  constructor(video, failed) {
    this.#player = new RxPlayer({ videoElement: video });
    this.#player.addEventListener('error', (error) => failed({ code: error.code, error: errorIn(error.cause?.answer) }));
  }

  /** `from` is where a livestream begins, in Unix seconds, if not at the present. Failures are reported, not thrown. */
  async load({ playlist, license }, headers, from) {
    const getLicense = (challenge) => fetchLicense(license, headers(), challenge);
    this.#player.loadVideo({
      url: playlist,
      transport: 'dash',
      autoPlay: true,
      keySystems: license ? [{ type: 'clearkey', getLicense }] : [],
      startAt: from === undefined ? undefined : { wallClockTime: from },
    });
  }

  /** The Unix time of the video's second 0; null if the presentation has no wall clock. */
  zero() {
    return this.#player.isLive() ? this.#player.getWallClockTime() - this.#player.getPosition() : null;
  }

  /** Bits per second. */
  bitrate() {
    const shown = [this.#player.getVideoRepresentation(), this.#player.getAudioRepresentation()];
    return shown.reduce((sum, one) => sum + (one?.bitrate ?? 0), 0);
  }

  destroy() {
    this.#player.dispose();
  }
}

// What a viewer would measure with a stop-watch: it looks at the picture's position and knows nothing of the player.

const EVERY_MS = 20;
const STALL_MS = 250; // the position of a running video is never older than this

export class StopWatch {
  startup = null; // milliseconds up to the first movement
  played = 0;
  waits = []; // the length of each wait in mid-play, in milliseconds
  bits = 0;
  stands = false; // whether the picture stands in mid-play
  #begin = performance.now();
  #moved = null; // when the position moved last
  #position;
  #timer;

  /** `bitrate` gives the bits per second that are shown. Starts at once. */
  constructor(video, bitrate) {
    this.#position = video.currentTime;
    this.#timer = setInterval(() => this.#look(video, bitrate), EVERY_MS);
  }

  stop() {
    clearInterval(this.#timer);
    const { startup, played, waits, bits } = this;
    const waited = waits.reduce((sum, wait) => sum + wait, 0);
    return { startup, played, waits, waited, bitrate: bits / played };
  }

  #look(video, bitrate) {
    const now = performance.now();
    const moves = video.currentTime !== this.#position;
    this.#position = video.currentTime;
    if (video.paused || video.seeking || video.ended) {
      if (this.#moved !== null) this.#moved = now;
      return;
    }
    if (!moves) {
      this.stands ||= this.#moved !== null && now - this.#moved > STALL_MS;
      return;
    }
    const since = this.#moved === null ? 0 : now - this.#moved;
    if (this.#moved === null) this.startup = now - this.#begin;
    else if (this.stands) this.waits.push(since);
    else {
      this.played += since;
      this.bits += since * bitrate();
    }
    this.stands = false;
    this.#moved = now;
  }
}

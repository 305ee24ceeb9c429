// Video.js, unmodified: HLS in the clear.

export class Player {
  static version = videojs.VERSION;
  #player;

  constructor(video, failed) {
    // Without controls: the page looks at the picture alone. It looks for the present of a livestream only when it plays.
    this.#player = videojs(video, { children: ['mediaLoader'], autoplay: true });
    this.#player.on('error', () => failed({ code: this.#player.error().code, error: null }));
  }

  /** Begins at the present. Failures of the player are reported, not thrown. */
  async load({ playlist }, headers, from) {
    if (from !== undefined) throw new Error('Video.js begins a livestream at the present only');
    this.#player.src({ src: playlist, type: 'application/x-mpegURL' });
  }

  #playlist() {
    return this.#player.tech(true)?.vhs?.playlists?.media();
  }

  /** The Unix time of the video's second 0; null if the presentation has no wall clock. */
  zero() {
    const loaded = this.#playlist()?.segments.findLast(({ start, programDateTime }) => start !== undefined && programDateTime);
    return loaded ? loaded.programDateTime / 1000 - loaded.start : null;
  }

  /** Bits per second. */
  bitrate() {
    return this.#playlist()?.attributes.BANDWIDTH ?? 0;
  }

  destroy() {
    this.#player.dispose();
  }
}

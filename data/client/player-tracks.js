// Qualities, languages of sound, and subtitles, as Shaka Player has them.

/**
 * @typedef {import('./player-adapter.js').TrackKind} Kind
 * @typedef {import('./player-adapter.js').TrackOption} TrackOption
 */

export class Tracks {
  #player;
  #words;

  /**
   * @param {any} player of Shaka
   * @param {import('./player-texts.js').Texts} words
   */
  constructor(player, words) {
    this.#player = player;
    this.#words = words;
  }

  /**
   * @param {Kind} kind
   * @returns {TrackOption[]}
   */
  options(kind) {
    if (kind === 'audio') return this.#audio();
    return kind === 'quality' ? this.#qualities() : this.#subtitles();
  }

  #audio() {
    const tracks = this.#player.getAudioTracks?.() ?? [];
    return tracks.map((/** @type {any} */ { language, label, active }, /** @type {number} */ i) => ({ value: String(i), label: label || name(language), chosen: active }));
  }

  #qualities() {
    const automatic = this.#player.getConfiguration().abr.enabled;
    /** @type {Map<number, TrackOption>} */
    const heights = new Map();
    for (const { id, height, active } of this.#player.getVariantTracks()) {
      if (!height || (heights.has(height) && !active)) continue;
      heights.set(height, { value: String(id), label: `${height}p`, chosen: active && !automatic });
    }
    if (heights.size < 2) return [];
    const sorted = [...heights].sort(([one], [other]) => other - one).map(([, option]) => option);
    return [{ value: '', label: this.#words.automatic, chosen: automatic }, ...sorted];
  }

  #subtitles() {
    const tracks = this.#player.getTextTracks();
    if (tracks.length === 0) return [];
    const shown = tracks.some((/** @type {any} */ { active }) => active);
    const options = tracks.map((/** @type {any} */ { id, language, label, active }) => ({ value: String(id), label: label || name(language), chosen: active }));
    return [{ value: '', label: this.#words.off, chosen: !shown }, ...options];
  }

  /**
   * @param {Kind} kind
   * @param {string} value
   */
  choose(kind, value) {
    const player = this.#player;
    const byId = (/** @type {any[]} */ tracks) => tracks.find(({ id }) => String(id) === value);
    if (kind === 'audio') player.selectAudioTrack(player.getAudioTracks()[Number(value)]);
    else if (kind === 'subtitles') player.selectTextTrack(byId(player.getTextTracks()) ?? null);
    else {
      player.configure('abr.enabled', value === '');
      if (value) player.selectVariantTrack(byId(player.getVariantTracks()), true);
    }
  }
}

/** @param {string} language */
function name(language) {
  try {
    return new Intl.DisplayNames(undefined, { type: 'language' }).of(language) ?? language;
  } catch {
    return language;
  }
}

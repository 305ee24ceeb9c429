// DASH manifests as far as Playgate's origin serves them: one period; each representation is one indexed file, or a
// list of numbered segments with a timeline.

import { playerError } from './drm.js';

/**
 * @typedef {{url: URL, range?: string}} Address `range` is `from-to`
 * @typedef {Address & {start: number, end: number}} Segment in seconds of the presentation
 * @typedef {(address: Address) => Promise<ArrayBuffer>} Load
 *
 * @typedef {object} Segments
 * @property {number} start
 * @property {number} end
 * @property {number} shift seconds that the times of the media are ahead of the presentation
 * @property {(time: number) => Segment | null} at
 *
 * @typedef {object} Track
 * @property {string} id
 * @property {string} type
 * @property {string} [key] id of its key
 * @property {number} bandwidth
 * @property {number} height
 * @property {Address} initialization
 * @property {(load: Load) => Promise<Segments>} index
 * @property {Segments} [segments] once they are known
 *
 * @typedef {object} Manifest
 * @property {boolean} live
 * @property {number} duration seconds, if it is not live
 * @property {number} update seconds between two requests for it
 * @property {number} delay seconds from the live edge
 * @property {Track[][]} kinds the tracks of pictures and those of sound, the richest first; without those that it lacks
 */

/** @param {string | null} text */
function seconds(text) {
  const [, hours = 0, minutes = 0, rest = 0] = /^PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?$/.exec(text ?? '') ?? [];
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(rest);
}

/**
 * @param {Element} element
 * @param {string} name
 */
const inside = (element, name) => /** @type {Element | undefined} */ (element.getElementsByTagName(name)[0]);

/**
 * @param {Element} element
 * @param {string} name
 * @param {number} absent
 */
const number = (element, name, absent) => Number(element.getAttribute(name) ?? absent);

/** Numbered segments with one timeline. @implements {Segments} */
class Timeline {
  /** @type {{start: number, duration: number, count: number, first: number}[]} */
  #runs = [];
  #address;

  /**
   * @param {Element} template
   * @param {(name: string, no?: number) => URL} address of the named attribute
   */
  constructor(template, address) {
    this.#address = address;
    const scale = number(template, 'timescale', 1);
    const shift = number(template, 'presentationTimeOffset', 0);
    this.shift = shift / scale;
    let first = number(template, 'startNumber', 1);
    let start = 0;
    for (const run of template.getElementsByTagName('S')) {
      const duration = number(run, 'd', 0) / scale;
      const count = number(run, 'r', 0) + 1;
      if (run.hasAttribute('t')) start = (number(run, 't', 0) - shift) / scale;
      this.#runs.push({ start, duration, count, first });
      start += duration * count;
      first += count;
    }
  }

  get start() {
    return this.#runs[0]?.start ?? 0;
  }

  get end() {
    const last = this.#runs.at(-1);
    return last ? last.start + last.duration * last.count : 0;
  }

  /** @param {number} time */
  at(time) {
    for (const { start, duration, count, first } of this.#runs) {
      const nth = Math.floor((time - start) / duration + 1e-6);
      if (nth < 0 || nth >= count) continue;
      const from = start + nth * duration;
      return { start: from, end: from + duration, url: this.#address('media', first + nth) };
    }
    return null;
  }
}

/** The segments of one file, from its index (`sidx`). @implements {Segments} */
class FileIndex {
  shift = 0;
  start = 0;
  end = 0;
  /** @type {Segment[]} */
  #segments = [];

  /**
   * @param {ArrayBuffer} bytes
   * @param {URL} url
   * @param {number} first byte behind the index
   */
  constructor(bytes, url, first) {
    const view = new DataView(bytes);
    const wide = view.getUint8(8) === 1;
    const scale = view.getUint32(16);
    let offset = first + (wide ? Number(view.getBigUint64(28)) : view.getUint32(24));
    let place = wide ? 36 : 28;
    const count = view.getUint16(place + 2);
    place += 4;
    for (let i = 0; i < count; i += 1, place += 12) {
      const size = view.getUint32(place) & 0x7fffffff;
      const start = this.end;
      this.end += view.getUint32(place + 4) / scale;
      this.#segments.push({ start, end: this.end, url, range: `${offset}-${offset + size - 1}` });
      offset += size;
    }
  }

  /** @param {number} time */
  at(time) {
    return this.#segments.find(({ start, end }) => start <= time + 1e-6 && time + 1e-6 < end) ?? null;
  }
}

/**
 * @param {Element} representation
 * @param {URL} manifest its address
 * @returns {Pick<Track, 'initialization' | 'index'> | undefined} undefined if it is of another form
 */
function segmentsOf(representation, manifest) {
  const template = inside(representation, 'SegmentTemplate') ?? (representation.parentElement && inside(representation.parentElement, 'SegmentTemplate'));
  if (template && inside(template, 'SegmentTimeline')) {
    const id = representation.getAttribute('id') ?? '';
    const address = (/** @type {string} */ name, no = 0) => {
      const text = template.getAttribute(name) ?? '';
      return new URL(text.replaceAll('$RepresentationID$', id).replaceAll('$Number$', String(no)), manifest);
    };
    const timeline = new Timeline(template, address);
    return { initialization: { url: address('initialization') }, index: async () => timeline };
  }
  const base = inside(representation, 'SegmentBase');
  const range = base?.getAttribute('indexRange');
  const head = base && inside(base, 'Initialization')?.getAttribute('range');
  if (!range || !head) return undefined;
  const url = new URL(inside(representation, 'BaseURL')?.textContent ?? '', manifest);
  const index = async (/** @type {Load} */ load) => new FileIndex(await load({ url, range }), url, Number(range.split('-')[1]) + 1);
  return { initialization: { url, range: head }, index };
}

/**
 * @param {ArrayBuffer} bytes
 * @param {URL} address
 * @returns {Manifest}
 */
export function parseManifest(bytes, address) {
  const xml = new DOMParser().parseFromString(new TextDecoder().decode(bytes), 'application/xml');
  const root = xml.documentElement;
  /** @type {Record<string, Track[]>} */
  const tracks = { video: [], audio: [] };
  for (const set of root.getElementsByTagName('AdaptationSet')) {
    const protections = [...set.getElementsByTagName('ContentProtection')];
    const kid = protections.map((one) => one.getAttribute('cenc:default_KID')).find(Boolean);
    for (const one of set.getElementsByTagName('Representation')) {
      const attribute = (/** @type {string} */ name) => one.getAttribute(name) ?? set.getAttribute(name) ?? '';
      const type = `${attribute('mimeType')}; codecs="${attribute('codecs')}"`;
      const segments = segmentsOf(one, address);
      const kind = set.getAttribute('contentType') ?? attribute('mimeType').split('/')[0] ?? '';
      if (!segments || !tracks[kind]) continue;
      const facts = { id: attribute('id'), type, bandwidth: number(one, 'bandwidth', 0), height: number(one, 'height', 0) };
      tracks[kind].push({ ...facts, key: kid?.replace(/-/g, '').toLowerCase(), ...segments });
    }
  }
  const kinds = Object.values(tracks).filter((list) => list.length > 0);
  if (kinds.length === 0) throw playerError('the playlist is no DASH manifest that this player reads; use Shaka Player');
  for (const list of kinds) list.sort((a, b) => b.bandwidth - a.bandwidth);
  return {
    live: root.getAttribute('type') === 'dynamic',
    duration: seconds(root.getAttribute('mediaPresentationDuration')),
    update: seconds(root.getAttribute('minimumUpdatePeriod')) || 2,
    delay: seconds(root.getAttribute('suggestedPresentationDelay')) || 6,
    kinds,
  };
}

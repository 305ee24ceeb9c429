// DASH manifests as far as Playgate's origin serves them: one period; each representation is one indexed file, or a
// list of numbered segments with a timeline.

const seconds = (text) => {
  const [, hours = 0, minutes = 0, rest = 0] = /^PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?$/.exec(text ?? '') ?? [];
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(rest);
};

const keyId = (uuid) => uuid?.replace(/-/g, '').toLowerCase();

/** Segments with one timeline; a segment has `start` and `end` in seconds of the presentation, and its address. */
class Timeline {
  constructor(template, address, id) {
    const scale = Number(template.getAttribute('timescale') ?? 1);
    const shift = Number(template.getAttribute('presentationTimeOffset') ?? 0);
    this.shift = shift / scale;
    this.runs = [];
    let number = Number(template.getAttribute('startNumber') ?? 1);
    let at = 0;
    for (const run of template.getElementsByTagName('S')) {
      const duration = Number(run.getAttribute('d')) / scale;
      const count = Number(run.getAttribute('r') ?? 0) + 1;
      at = run.hasAttribute('t') ? (Number(run.getAttribute('t')) - shift) / scale : at;
      this.runs.push({ start: at, duration, count, number });
      at += duration * count;
      number += count;
    }
    const named = (text) => text.replaceAll('$RepresentationID$', id);
    this.initialization = { url: new URL(named(template.getAttribute('initialization')), address) };
    const media = named(template.getAttribute('media'));
    this.address = (no) => new URL(media.replaceAll('$Number$', no), address);
  }

  get start() {
    return this.runs[0]?.start ?? 0;
  }

  get end() {
    const last = this.runs.at(-1);
    return last ? last.start + last.duration * last.count : 0;
  }

  at(time) {
    for (const { start, duration, count, number } of this.runs) {
      const nth = Math.floor((time - start) / duration + 1e-6);
      if (nth < 0 || nth >= count) continue;
      const from = start + nth * duration;
      return { start: from, end: from + duration, url: this.address(number + nth) };
    }
    return null;
  }
}

/** The segments of one file, from its index (`sidx`). */
class FileIndex {
  shift = 0;
  start = 0;

  constructor(bytes, url, first) {
    const view = new DataView(bytes);
    const wide = view.getUint8(8) === 1;
    const scale = view.getUint32(16);
    const from = wide ? Number(view.getBigUint64(28)) : view.getUint32(24);
    let place = wide ? 36 : 28;
    let offset = first + from;
    let at = 0;
    this.segments = [];
    const count = view.getUint16(place + 2);
    place += 4;
    for (let i = 0; i < count; i += 1, place += 12) {
      const size = view.getUint32(place) & 0x7fffffff;
      const duration = view.getUint32(place + 4) / scale;
      this.segments.push({ start: at, end: at + duration, url, range: `${offset}-${offset + size - 1}` });
      at += duration;
      offset += size;
    }
  }

  get end() {
    return this.segments.at(-1)?.end ?? 0;
  }

  at(time) {
    return this.segments.find(({ start, end }) => start <= time + 1e-6 && time + 1e-6 < end) ?? null;
  }
}

function segmentsOf(representation, address) {
  const template = representation.getElementsByTagName('SegmentTemplate')[0];
  if (template) {
    const timeline = new Timeline(template, address, representation.getAttribute('id'));
    return { initialization: timeline.initialization, index: async () => timeline };
  }
  const base = representation.getElementsByTagName('SegmentBase')[0];
  const file = new URL(representation.getElementsByTagName('BaseURL')[0].textContent, address);
  const range = base.getAttribute('indexRange');
  const index = async (load) => new FileIndex(await load(file, range), file, Number(range.split('-')[1]) + 1);
  return { initialization: { url: file, range: base.getElementsByTagName('Initialization')[0].getAttribute('range') }, index };
}

/**
 * Reads a manifest: whether it is live, its duration if it is not, the seconds between updates and from the live edge,
 * the server's time, and the tracks by kind, the richest first.
 */
export function parseManifest(bytes, address) {
  const xml = new DOMParser().parseFromString(new TextDecoder().decode(bytes), 'application/xml');
  const root = xml.documentElement;
  if (root.localName !== 'MPD') throw new Error('the playlist is not a DASH manifest');
  const tracks = { video: [], audio: [] };
  for (const set of root.getElementsByTagName('AdaptationSet')) {
    const protections = [...set.getElementsByTagName('ContentProtection')];
    const key = protections.map((one) => keyId(one.getAttribute('cenc:default_KID'))).find(Boolean);
    for (const one of set.getElementsByTagName('Representation')) {
      const type = `${one.getAttribute('mimeType')}; codecs="${one.getAttribute('codecs')}"`;
      tracks[set.getAttribute('contentType')]?.push({
        id: one.getAttribute('id'),
        type,
        key,
        bandwidth: Number(one.getAttribute('bandwidth')),
        height: Number(one.getAttribute('height') ?? 0),
        ...segmentsOf(one, address),
      });
    }
  }
  for (const list of Object.values(tracks)) list.sort((a, b) => b.bandwidth - a.bandwidth);
  const clock = root.getElementsByTagName('UTCTiming')[0]?.getAttribute('value');
  return {
    live: root.getAttribute('type') === 'dynamic',
    duration: seconds(root.getAttribute('mediaPresentationDuration')),
    update: seconds(root.getAttribute('minimumUpdatePeriod')) || 2,
    delay: seconds(root.getAttribute('suggestedPresentationDelay')) || 6,
    now: clock ? Date.parse(clock) / 1000 : undefined,
    tracks,
  };
}

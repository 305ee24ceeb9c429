// What there is to see: the catalogue and the broadcast schedule.

import { PlaygateError } from './error.js';

/**
 * @typedef {{type: string, default: boolean, filename: string, embeddedText: boolean, purpose?: string, size?: number}} Image
 *
 * @typedef {object} Broadcast
 * @property {string} id
 * @property {string} title
 * @property {string} [description]
 * @property {string} [subtitle]
 * @property {number} [season]
 * @property {number} [episode]
 * @property {number} start Unix seconds
 * @property {number} stop Unix seconds
 * @property {boolean} liveAvailable
 * @property {{from: number, to: number}} [catchupInterval]
 * @property {{pause: boolean, rewind: boolean, fastForward: boolean}} extendedRights
 * @property {Image[]} [images]
 * @property {number} [pgAge]
 * @property {string[]} [categories]
 * @property {number} [streamStart] of the look-up by id
 * @property {number} [streamStop] of the look-up by id
 * @property {string} [streamId] of the look-up by id
 *
 * @typedef {{current: Broadcast, next?: Broadcast, previous?: Broadcast}} LiveView
 *
 * @typedef {object} Livestream
 * @property {string} id
 * @property {string} name
 * @property {Image[]} [images]
 * @property {string} zone
 * @property {boolean} liveRights
 * @property {number} catchupDays
 * @property {boolean} startOver
 * @property {Broadcast['extendedRights']} extendedRights
 * @property {boolean} encrypted
 * @property {string[]} protocols
 *
 * @typedef {object} Asset
 * @property {string} id
 * @property {string} title
 * @property {Image[]} [images]
 * @property {number} [pgAge]
 * @property {{from?: number, to?: number}} [available]
 * @property {boolean} encrypted
 * @property {string[]} protocols
 */

const MOST_IDS = 200;
/** Characters of the ids in a request, whose target has at most 8 KiB. */
const MOST_CHARACTERS = 6000;

/**
 * The ids in lists that fit into one request each.
 * @param {string[]} ids
 */
export function lists(ids) {
  /** @type {string[][]} */
  const parts = [];
  let part = /** @type {string[]} */ ([]);
  let room = 0;
  for (const id of new Set(ids)) {
    const length = encodeURIComponent(id).length + 1;
    if (room < length || part.length === MOST_IDS) {
      parts.push((part = []));
      room = MOST_CHARACTERS;
    }
    part.push(encodeURIComponent(id));
    room -= length;
  }
  return parts;
}

/** @param {Record<string, unknown>} parameters */
function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : '';
}

export class Guide {
  #transport;

  /** @param {import('./transport.js').Transport} transport */
  constructor(transport) {
    this.#transport = transport;
  }

  /**
   * All livestreams, or a page of them.
   * @param {{limit?: number, after?: string}} [page]
   * @returns {Promise<Livestream[]>}
   */
  livestreams(page = {}) {
    return this.#read(`api/catalog/v1/livestreams${query(page)}`);
  }

  /**
   * All assets (films), or a page of them.
   * @param {{limit?: number, after?: string}} [page]
   * @returns {Promise<Asset[]>}
   */
  assets(page = {}) {
    return this.#read(`api/catalog/v1/assets${query(page)}`);
  }

  /**
   * What is on, by livestream id. A livestream that is unknown or in a gap of the guide is absent.
   * @param {string[]} livestreams any number
   * @param {{offset?: number}} [options] seconds back from now, 0 or less
   * @returns {Promise<Record<string, LiveView>>}
   */
  live(livestreams, { offset } = {}) {
    return this.#byId('live', 'livestreams', livestreams, offset ? `&offset=${offset}` : '');
  }

  /**
   * The broadcasts of a TV day, by livestream id.
   * @param {string} date YYYY-MM-DD
   * @param {string[]} livestreams any number
   * @returns {Promise<Record<string, Broadcast[]>>}
   */
  day(date, livestreams) {
    return this.#byId(`day/${encodeURIComponent(date)}`, 'livestreams', livestreams);
  }

  /**
   * Broadcasts by id, with the section of the livestream that carries them. An unknown one is absent.
   * @param {string[]} ids any number
   * @returns {Promise<Record<string, Broadcast>>}
   */
  broadcasts(ids) {
    return this.#byId('', 'broadcasts', ids);
  }

  /**
   * @param {string} id
   * @returns {Promise<Broadcast>}
   */
  broadcast(id) {
    return this.#read(`api/schedule/v1/broadcasts/${encodeURIComponent(id)}`);
  }

  /**
   * The guide as XMLTV.
   * @param {{days?: number, daysBack?: number, livestreams?: string[]}} [options]
   * @returns {Promise<string>}
   */
  xmltv({ days, daysBack, livestreams } = {}) {
    const parameters = { days, days_back: daysBack, livestreams: livestreams?.join(',') };
    return this.#transport.request('GET', `api/schedule/v1/xmltv${query(parameters)}`, { as: 'text', cached: true, timeout: 60 });
  }

  /**
   * The playlist of the livestreams that need no account.
   * @returns {Promise<string>}
   */
  m3u() {
    return this.#transport.request('GET', 'api/schedule/v1/m3u', { as: 'text', cached: true });
  }

  /** @param {string} path */
  #read(path) {
    return this.#transport.request('GET', path, { cached: true });
  }

  /**
   * The answers to any number of ids as one.
   * @param {string} path below `broadcasts`
   * @param {string} name of the parameter
   * @param {string[]} ids
   * @param {string} [more]
   */
  async #byId(path, name, ids, more = '') {
    const place = `api/schedule/v1/broadcasts${path && `/${path}`}`;
    const parts = lists(ids);
    const ask = (/** @type {string[]} */ part) => this.#read(`${place}?${name}=${part.join(',')}${more}`);
    // 404 means that no id of the list is known, which is no reason to withhold the others.
    const unknown = (/** @type {unknown} */ error) => {
      if (parts.length > 1 && error instanceof PlaygateError && error.code === 'LIVESTREAM_NOT_FOUND') return {};
      throw error;
    };
    const answers = await Promise.all(parts.map((part) => ask(part).catch(unknown)));
    return Object.assign({}, ...answers);
  }
}

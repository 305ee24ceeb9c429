// Where tokens and the device id are kept. A browser may refuse its storage, at any time: then they last as long as the page.

/**
 * The part of `localStorage` that is used. Its functions may be asynchronous.
 * @typedef {object} TokenStorage
 * @property {(key: string) => string | null | Promise<string | null>} getItem
 * @property {(key: string, value: string) => unknown} setItem
 * @property {(key: string) => unknown} removeItem
 */

/** @returns {TokenStorage} */
export function memoryStorage() {
  /** @type {Map<string, string>} */
  const kept = new Map();
  return {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => kept.set(key, value),
    removeItem: (key) => kept.delete(key),
  };
}

/** @returns {TokenStorage | undefined} */
function browserStorage() {
  try {
    return globalThis.localStorage; // the mere access throws where cookies are blocked
  } catch {
    return undefined;
  }
}

/** A storage that never fails: what the given one refuses is kept in memory. */
export class SafeStorage {
  #memory = memoryStorage();
  #storage;

  /** @param {TokenStorage} [storage] */
  constructor(storage = browserStorage()) {
    this.#storage = storage;
  }

  /**
   * @param {string} key
   * @returns {Promise<string | null>}
   */
  async get(key) {
    const kept = await this.#memory.getItem(key);
    if (kept !== null) return kept;
    try {
      return (await this.#storage?.getItem(key)) ?? null;
    } catch {
      return null;
    }
  }

  /**
   * @param {string} key
   * @param {string} value
   */
  async set(key, value) {
    this.#memory.removeItem(key);
    try {
      if (!this.#storage) throw new Error('no storage');
      await this.#storage.setItem(key, value);
    } catch {
      this.#memory.setItem(key, value);
    }
  }

  /** @param {string} key */
  async remove(key) {
    this.#memory.removeItem(key);
    try {
      await this.#storage?.removeItem(key);
    } catch {
      // It stays where it is; the service refuses it.
    }
  }
}

// What the walks share: the demo, assertions, and the operations that were called.
import { readFileSync } from 'node:fs';

export interface Demo {
  baseUrl: string;
  opsUrl: string;
  partnerToken: string;
  operatorToken: string;
  catchup: string;
  offsetOpen: number;
  livestreams: { open: string; blackout: string };
  vod: { open: string; premium: string };
}

export const demo = JSON.parse(readFileSync(process.env['DEMO']!, 'utf8')) as Demo;
export const PASSWORD = 'goats and a meadow';
export const NEW_PASSWORD = 'troll under the bridge';
export const device = (id: string) => ({
  'Service-Play-DevicePlatform': 'linux',
  'Service-Play-DeviceType': 'tv',
  'Service-Play-DeviceModel': 'Model 5',
  'Service-Play-DeviceId': id,
});
export const clearKey = { 'Service-Play-DRM': 'clearkey', 'Service-Play-Protocol': 'dash' } as const;
/** The key id of the demo's encrypted clip. */
export const KEY_ID = Buffer.from('5ad1c0de000040008000000000000001', 'hex').toString('base64url');
export const today = () => new Date().toISOString().slice(0, 10);
export const now = () => Math.floor(Date.now() / 1000);
export const beat = (id: string, timestamp: number) => ({
  ...device(id),
  ...clearKey,
  'Service-Play-Timestamp': String(timestamp),
  'Service-Play-Bitrate': '3500000',
  'Service-Play-ResolutionWidth': '1920',
  'Service-Play-ResolutionHeight': '1080',
});
export const event = (seqId: number) => ({
  timestamp: Date.now(),
  action: 'playback_buffering',
  seqId,
  context: { device_id: 'tv-1', asset_id: 'open', duration: 800, playback_buffering_type: 'initial', cdn: 'a' },
  extra: { player_version: '1.2', screen: 'kitchen' },
});

export function assert(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(`not as described: ${what}`);
}

interface ErrorBody { error: { code: string; message: string; user_message: string; details?: unknown } }

/** Returns the body of a response that must have this status. */
export function got<T>(sent: { data?: T; error?: unknown; response?: Response }, status = 200): NonNullable<T> {
  const actual = sent.response?.status;
  assert(actual === status, `status ${actual} instead of ${status}: ${JSON.stringify(sent.error)}`);
  return sent.data as NonNullable<T>;
}

/** Returns the error of a response that must have this status and code. A string is a page or a SOAP fault. */
export function refused<E extends ErrorBody>(sent: { error?: E | string; response?: Response }, status: number, code: string): E['error'] {
  const { error, response } = sent;
  assert(response?.status === status, `status ${response?.status} instead of ${status} ${code}: ${JSON.stringify(error)}`);
  assert(typeof error === 'object' && error.error.code === code, `${code} in ${JSON.stringify(error)}`);
  return error.error;
}

/**
 * What applications do not call: players report by CMCD themselves, browsers load the front page, the lab's and scripts,
 * and the routes below `/api/lab` answer lab partners only.
 */
const BY_OTHERS = /^\/$|^\/client\/|^\/(api\/)?lab($|\/)|^\/api\/tracker\/v1\/cmcd\//;

/** Fails unless each operation of the description was called. */
export class Coverage {
  readonly #open: Set<string>;
  readonly #count: number;

  constructor(file: string) {
    const { paths } = JSON.parse(readFileSync(file, 'utf8')) as { paths: Record<string, object> };
    this.#open = new Set(Object.entries(paths).filter(([path]) => !BY_OTHERS.test(path)).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`)));
    this.#count = this.#open.size;
  }

  visit(method: string, path: string): void {
    this.#open.delete(`${method.toLowerCase()} ${path}`);
  }

  finish(client: string): void {
    assert(this.#open.size === 0, `not called: ${[...this.#open].join(', ')}`);
    console.log(`${client}: all ${this.#count} operations called`);
  }
}

/** The reset token in a mail. */
export const resetToken = (text: string) => /pgr_[A-Za-z0-9_-]+/.exec(text)![0];

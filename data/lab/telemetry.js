// Telemetry of the player: events are numbered without holes and sent in batches of at most 100, kept and sent again
// after 429 and 5xx, dropped after other 4xx.

const BATCH = 100;
const KEPT = 1_000;
const EVERY_MS = 15_000;

export class Telemetry {
  #service;
  #queue = [];
  #number = 0;
  #sending = false;
  #notBefore = 0;

  constructor(service) {
    this.#service = service;
    setInterval(() => this.send(), EVERY_MS);
  }

  report(action, context) {
    const id = this.#service.device[this.#service.name('Play-DeviceId')];
    const event = {
      timestamp: Date.now(),
      source: 'APP_ACTION',
      component: 'lab/player',
      action,
      seqId: (this.#number += 1),
      context: { device_id: id, device_platform: 'web', device_type: 'browser', ...context },
      extra: { player_version: 'lab' },
    };
    this.#queue.push(event);
    this.#queue.splice(0, this.#queue.length - KEPT);
  }

  async send() {
    if (this.#sending || this.#queue.length === 0 || Date.now() < this.#notBefore || !this.#service.user) return;
    this.#sending = true;
    const batch = this.#queue.slice(0, BATCH);
    const answer = await this.#service.telemetry(batch);
    const keep = answer.status === 0 || answer.status === 429 || answer.status >= 500;
    if (keep) this.#notBefore = Date.now() + (answer.retryAfter ?? 15) * 1000;
    else this.#queue.splice(0, batch.length);
    this.#sending = false;
  }
}

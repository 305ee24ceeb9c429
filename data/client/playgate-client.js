// @playgate/client: the partner interface of Playgate as objects. See docs/clients.md.

export { PlaygateClient } from './client.js';
export { PlaygateError } from './error.js';
export { PlaybackSession } from './session.js';
export { memoryStorage } from './storage.js';

// @playgate/client: the partner interface of Playgate as objects. See docs/clients.md.

export { PlaygateClient } from './client.js';
export { PlaygateError } from './error.js';
export { PlaybackSession } from './session.js';
export { memoryStorage } from './storage.js';

/**
 * @typedef {import('./client.js').ClientOptions} ClientOptions
 * @typedef {import('./error.js').ErrorDetails} ErrorDetails
 * @typedef {import('./login.js').Credentials} Credentials
 * @typedef {import('./login.js').User} User
 * @typedef {import('./account.js').Profile} Profile
 * @typedef {import('./account.js').Device} Device
 * @typedef {import('./guide.js').Asset} Asset
 * @typedef {import('./guide.js').Broadcast} Broadcast
 * @typedef {import('./guide.js').Livestream} Livestream
 * @typedef {import('./guide.js').LiveView} LiveView
 * @typedef {import('./playback.js').Drm} Drm
 * @typedef {import('./playback.js').Entitlement} Entitlement
 * @typedef {import('./playback.js').Prepared} Prepared
 * @typedef {import('./playback.js').Protocol} Protocol
 * @typedef {import('./playback.js').RunningSession} RunningSession
 * @typedef {import('./player-adapter.js').PlayerAdapter} PlayerAdapter
 * @typedef {import('./player-adapter.js').SessionOptions} SessionOptions
 * @typedef {import('./player-adapter.js').StartOptions} StartOptions
 * @typedef {import('./player-adapter.js').State} State
 * @typedef {import('./player-adapter.js').TrackKind} TrackKind
 * @typedef {import('./player-adapter.js').TrackLists} TrackLists
 * @typedef {import('./player-adapter.js').TrackOption} TrackOption
 * @typedef {import('./storage.js').TokenStorage} TokenStorage
 */

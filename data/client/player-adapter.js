// What a session and a player have to say to each other, as types. An adapter of another player keeps to them.

/**
 * @typedef {import('./error.js').PlaygateError} PlaygateError
 *
 * @typedef {{drm: import('./playback.js').Drm, protocol: import('./playback.js').Protocol}} Way
 *
 * @typedef {object} Source what an adapter loads
 * @property {import('./playback.js').Prepared} prepared
 * @property {number} [position] where to begin: Unix seconds of a livestream, else seconds from the start
 * @property {() => Record<string, string>} licenseHeaders
 * @property {(challenge: ArrayBuffer | ArrayBufferView) => Promise<ArrayBuffer>} license for adapters that fetch it themselves
 * @property {() => Promise<ArrayBuffer>} certificate of FairPlay
 *
 * @typedef {object} AdapterEvents
 * @property {(error: PlaygateError) => void} failed
 * @property {(buffering: boolean) => void} buffering
 * @property {() => void} ended
 *
 * @typedef {object} PlayerAdapter what a session needs of a player
 * @property {string} name
 * @property {HTMLMediaElement} media
 * @property {() => Way[] | Promise<Way[]>} ways that the player has in this browser, the best first
 * @property {(source: Source, events: AdapterEvents) => Promise<void>} load
 * @property {() => number | null} zero Unix time of second 0 of the media; null without a wall clock
 * @property {() => number} bitrate bits per second
 * @property {() => unknown} [goLive]
 * @property {() => unknown} unload
 * @property {TrackLists} [tracks] what `<playgate-player>` lets the viewer choose
 *
 * @typedef {'audio' | 'subtitles' | 'quality'} TrackKind
 * @typedef {{value: string, label: string, chosen: boolean}} TrackOption
 * @typedef {{options: (kind: TrackKind) => TrackOption[], choose: (kind: TrackKind, value: string) => void}} TrackLists
 *
 * @typedef {object} Questions what the application asks the viewer; null or no function leaves the refusal as it is
 * @property {(error: PlaygateError, signal: AbortSignal) => Promise<string | null>} [askPin]
 * @property {(sessions: import('./playback.js').RunningSession[], error: PlaygateError, signal: AbortSignal) => Promise<string | null>}
 * [chooseSession] resolves with the id of a session to end
 * @property {(devices: import('./account.js').Device[], error: PlaygateError, signal: AbortSignal) => Promise<string | null>}
 * [chooseDevice] resolves with the id of a device to remove
 *
 * @typedef {Questions & {startTimeout?: number}} SessionOptions `startTimeout` in seconds
 *
 * @typedef {object} StartOptions
 * @property {number} [offset] seconds behind live, 0 or less
 * @property {number} [position] of a film or in catch-up: seconds from the start
 * @property {number} [since] Unix time at which a finished broadcast began; the schedule is asked without it
 *
 * @typedef {'idle' | 'starting' | 'playing' | 'paused' | 'pin' | 'held' | 'ended'} State
 * `pin`: waits for the viewer's PIN. `held`: the program may not be shown; play goes on by itself.
 */

export {};

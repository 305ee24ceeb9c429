// Times that a session keeps to, in seconds.

/** After the stop of a program at which the next one is asked for: offsets are whole seconds. */
export const LATE = 3;
/** Over which players spread that request, which all of a channel make. */
export const SPREAD = 5;
/** Behind the present, and still live: as the service sees it. */
export const LIVE_WITHIN = 60;
/** Until the first picture. */
export const START_TIMEOUT = 30;
/** After the preflight request without a picture, when heartbeats begin all the same: without them the session ends after 35. */
export const HEARTBEAT_WITHIN = 7;
/** A session that is lost is replaced, but not in a loop. */
export const REPLACE_EVERY_SECONDS = 60;
/** After which media that do not come are a failure. */
export const AWAY_SECONDS = 120;
/** Until the next try where the schedule could not be asked. */
export const BORDER_RETRY = 10;

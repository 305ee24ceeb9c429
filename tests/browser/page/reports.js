// The reports of a page whose player has no CMCD in event mode, or leaves out its state: docs/playback.md has this code.

/** Reports the states of a video element; `say` reports one more. `stands` tells whether the player holds the picture. */
export function reportStates(video, { url }, stands = () => false) {
  let sent = 0;
  const say = (sta) => navigator.sendBeacon(url, `e=ps,sn=${sent++},sta=${sta},ts=${Date.now()},v=2`);
  const states = { waiting: 'r', pause: 'a', seeking: 'k', ended: 'e' };
  const listeners = Object.entries(states).map(([event, sta]) => [event, () => say(sta)]);
  listeners.push(['playing', () => stands() || say('p')]);
  for (const [event, listener] of listeners) video.addEventListener(event, listener);
  const stop = () => listeners.forEach(([event, listener]) => video.removeEventListener(event, listener));
  return { say, stop };
}

// Words of the player. What the service says to viewers comes in their language from there.

/** @typedef {typeof EN} Texts */

const EN = {
  player: 'Video player',
  play: 'Play',
  pause: 'Pause',
  replay: 'Start again',
  seek: 'Position',
  back: 'Back 10 seconds',
  forward: 'Forward 10 seconds',
  startOver: 'Start over',
  live: 'Live',
  goLive: 'Go to live',
  mute: 'Mute',
  unmute: 'Unmute',
  volume: 'Volume',
  quality: 'Quality',
  automatic: 'Automatic',
  audio: 'Audio',
  subtitles: 'Subtitles',
  off: 'Off',
  fullscreen: 'Full screen',
  pip: 'Picture in picture',
  loading: 'Loading …',
  pin: 'PIN',
  unlock: 'Unlock',
  cancel: 'Cancel',
  delete: 'Delete digit',
  attemptsLeft: (/** @type {number} */ n) => `Attempts left: ${n}.`,
  tryAgainIn: (/** @type {number} */ seconds) => `Try again in ${minutes(seconds)} min.`,
  tryAgain: 'Try again',
  logIn: 'Log in',
  email: 'E-mail',
  password: 'Password',
  endSession: (/** @type {string} */ device) => `Stop on ${device}`,
  removeDevice: (/** @type {string} */ device) => `Remove ${device}`,
  of: 'of',
  NO_ANSWER: 'The service cannot be reached. Check the connection.',
  NOT_LOGGED_IN: 'Please log in.',
  INVALID_OPTION: 'The player is not set up correctly.',
  PLAYER_FAILED: 'This cannot be played at present.',
  START_TIMEOUT: 'The video does not start.',
  DRM_NOT_SUPPORTED: 'This device cannot play this title.',
  displaced: 'Playback has moved to another device or tab.',
  expired: 'Playback has ended, because the device was away.',
  revoked: 'Playback was ended from another device.',
  signed_out: 'You have logged out.',
};

/** @type {Texts} */
const SV = {
  player: 'Videospelare',
  play: 'Spela',
  pause: 'Pausa',
  replay: 'Spela igen',
  seek: 'Position',
  back: '10 sekunder bakåt',
  forward: '10 sekunder framåt',
  startOver: 'Från början',
  live: 'Direkt',
  goLive: 'Till direktsändningen',
  mute: 'Stäng av ljudet',
  unmute: 'Sätt på ljudet',
  volume: 'Volym',
  quality: 'Kvalitet',
  automatic: 'Automatisk',
  audio: 'Ljud',
  subtitles: 'Undertexter',
  off: 'Av',
  fullscreen: 'Helskärm',
  pip: 'Bild i bild',
  loading: 'Laddar …',
  pin: 'Pinkod',
  unlock: 'Lås upp',
  cancel: 'Avbryt',
  delete: 'Ta bort siffra',
  attemptsLeft: (n) => `Försök kvar: ${n}.`,
  tryAgainIn: (seconds) => `Försök igen om ${minutes(seconds)} min.`,
  tryAgain: 'Försök igen',
  logIn: 'Logga in',
  email: 'E-post',
  password: 'Lösenord',
  endSession: (device) => `Stoppa på ${device}`,
  removeDevice: (device) => `Ta bort ${device}`,
  of: 'av',
  NO_ANSWER: 'Tjänsten kan inte nås. Kontrollera anslutningen.',
  NOT_LOGGED_IN: 'Logga in.',
  INVALID_OPTION: 'Spelaren är inte rätt inställd.',
  PLAYER_FAILED: 'Detta kan inte spelas just nu.',
  START_TIMEOUT: 'Videon startar inte.',
  DRM_NOT_SUPPORTED: 'Den här enheten kan inte spela titeln.',
  displaced: 'Uppspelningen har flyttats till en annan enhet eller flik.',
  expired: 'Uppspelningen avslutades eftersom enheten var borta.',
  revoked: 'Uppspelningen avslutades från en annan enhet.',
  signed_out: 'Du har loggat ut.',
};

/** @type {Texts} */
const DE = {
  player: 'Videoplayer',
  play: 'Abspielen',
  pause: 'Pause',
  replay: 'Von vorn',
  seek: 'Position',
  back: '10 Sekunden zurück',
  forward: '10 Sekunden vor',
  startOver: 'Von Anfang an',
  live: 'Live',
  goLive: 'Zur Live-Sendung',
  mute: 'Ton aus',
  unmute: 'Ton an',
  volume: 'Lautstärke',
  quality: 'Qualität',
  automatic: 'Automatisch',
  audio: 'Ton',
  subtitles: 'Untertitel',
  off: 'Aus',
  fullscreen: 'Vollbild',
  pip: 'Bild im Bild',
  loading: 'Lädt …',
  pin: 'PIN',
  unlock: 'Freigeben',
  cancel: 'Abbrechen',
  delete: 'Ziffer löschen',
  attemptsLeft: (n) => `Versuche übrig: ${n}.`,
  tryAgainIn: (seconds) => `Erneut versuchen in ${minutes(seconds)} min.`,
  tryAgain: 'Erneut versuchen',
  logIn: 'Anmelden',
  email: 'E-Mail',
  password: 'Passwort',
  endSession: (device) => `Auf ${device} beenden`,
  removeDevice: (device) => `${device} entfernen`,
  of: 'von',
  NO_ANSWER: 'Der Dienst ist nicht erreichbar. Prüfen Sie die Verbindung.',
  NOT_LOGGED_IN: 'Bitte melden Sie sich an.',
  INVALID_OPTION: 'Der Player ist nicht richtig eingerichtet.',
  PLAYER_FAILED: 'Das kann zurzeit nicht abgespielt werden.',
  START_TIMEOUT: 'Das Video startet nicht.',
  DRM_NOT_SUPPORTED: 'Dieses Gerät kann den Titel nicht abspielen.',
  displaced: 'Die Wiedergabe läuft auf einem anderen Gerät oder Tab weiter.',
  expired: 'Die Wiedergabe wurde beendet, weil das Gerät nicht erreichbar war.',
  revoked: 'Die Wiedergabe wurde von einem anderen Gerät beendet.',
  signed_out: 'Sie haben sich abgemeldet.',
};

/** @param {number} seconds */
const minutes = (seconds) => Math.ceil(seconds / 60);

/**
 * @param {string} language such as `sv-SE`
 * @returns {Texts}
 */
export function texts(language) {
  return { en: EN, sv: SV, de: DE }[language.slice(0, 2).toLowerCase()] ?? EN;
}

/**
 * Words for a refusal, with what its details add.
 * @param {import('./error.js').PlaygateError} error
 * @param {string} reason
 * @param {Texts} words
 */
export function refusalText(error, reason, words) {
  const { attemptsLeft } = error.details;
  const byCode = /** @type {Record<string, unknown>} */ (words);
  const said = byCode[reason] ?? (error.status === 0 ? byCode[error.code] : undefined) ?? error.userMessage;
  const more = [
    attemptsLeft !== undefined && words.attemptsLeft(attemptsLeft),
    error.retryAfter !== undefined && error.status === 429 && words.tryAgainIn(error.retryAfter),
  ];
  return [said, ...more].filter(Boolean).join(' ');
}

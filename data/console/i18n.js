// Language, time zone, and how searches compare texts. Texts are written in English in the scripts and marked with the
// tag t; the words files have their translations, with {0} for the first inserted value.
import de from './words_de.js';
import sv from './words_sv.js';

export const LANGUAGES = [
  ['en', 'English'],
  ['sv', 'Svenska'],
  ['de', 'Deutsch'],
];
const WORDS = { sv, de };

let language = 'en';
let locale = 'en';
let zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
export const BROWSER_ZONE = zone;

/** Sets language and zone; the first language of the browser that the console has, if `chosen` is none. */
export function speak(chosen, chosenZone) {
  const has = (tag) => LANGUAGES.some(([name]) => name === tag.slice(0, 2));
  const tag = [chosen, ...navigator.languages].find((one) => one && has(one)) ?? 'en';
  language = tag.slice(0, 2);
  // The region of the browser decides on formats, if it has one for this language.
  locale = navigator.languages.find((one) => one.startsWith(language)) ?? language;
  document.documentElement.lang = language;
  if (chosenZone) zone = chosenZone;
  formats.clear();
}

export const spoken = () => language;
export const zoneName = () => zone;

/** t`Revoke ${id}` is the text in the chosen language; in English if it is not translated. */
export function t(texts, ...values) {
  const key = texts.reduce((all, text, i) => `${all}{${i - 1}}${text}`);
  const words = WORDS[language]?.[key] ?? key;
  return words.replace(/\{(\d)\}/g, (_, i) => values[i]);
}

const formats = new Map();

function format(options) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(locale, { timeZone: zone, ...options }));
  return formats.get(key);
}

const DAY = { day: 'numeric', month: 'short' };
// Of 24 hours in each language, as in logs and guides; `AM` and `PM` would not fit below charts and in the guide.
const CLOCK = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };

/** Date and time with the zone's short name. */
export const longTime = (seconds) =>
  format({ ...DAY, year: 'numeric', ...CLOCK, timeZoneName: 'short' }).format(seconds * 1000);

/** The same to the second. */
export const fullTime = (seconds) =>
  format({ ...DAY, year: 'numeric', ...CLOCK, second: '2-digit', timeZoneName: 'short' }).format(seconds * 1000);

/** Date and time without the zone, which stands beside it. */
export const dateTime = (seconds) => format({ ...DAY, year: 'numeric', ...CLOCK }).format(seconds * 1000);

/** Time to the second with the zone's short name, and the day if it is not today, for what happened within the last days. */
export function exactTime(seconds) {
  const isToday = isoDay(seconds) === isoDay(Date.now() / 1000);
  return format({ ...(isToday ? {} : DAY), ...CLOCK, second: '2-digit', timeZoneName: 'short' }).format(seconds * 1000);
}

/** The time to the second, or day and time if the day is not today. A heading near it names the zone. */
export const briefTime = (seconds) =>
  isoDay(seconds) === isoDay(Date.now() / 1000) ? clockSeconds(seconds) : format({ ...DAY, ...CLOCK }).format(seconds * 1000);

export const clockTime = (seconds) => format(CLOCK).format(seconds * 1000);
export const clockSeconds = (seconds) => format({ ...CLOCK, second: '2-digit' }).format(seconds * 1000);
export const dayName = (seconds) => format({ weekday: 'short', ...DAY }).format(seconds * 1000);

/** The zone's short name at a time: CET, GMT+5:30. */
export const zoneShort = (seconds) =>
  format({ timeZoneName: 'short' })
    .formatToParts(seconds * 1000)
    .find(({ type }) => type === 'timeZoneName').value;

export const number = (value, options) => Number(value).toLocaleString(locale, options);

/** The date in the zone, as the API writes it: YYYY-MM-DD. */
export function isoDay(seconds) {
  const of = new Intl.DateTimeFormat('en-CA', { timeZone: zone, year: 'numeric', month: '2-digit', day: '2-digit' });
  return of.format(seconds * 1000);
}

/** Date and time in the zone, as an input takes them: YYYY-MM-DDTHH:MM. */
export const isoTime = (seconds) => `${isoDay(seconds)}T${new Intl.DateTimeFormat('en-GB', { timeZone: zone, ...CLOCK }).format(seconds * 1000)}`;

/** Another date, so many days later. */
export function shiftDay(day, days) {
  const date = new Date(`${day}T12:00:00Z`);
  date.setUTCDate(date.getUTCDate() + days);
  return date.toISOString().slice(0, 10);
}

/** Seconds by which the zone is ahead of UTC at a time. */
function ahead(seconds) {
  const options = { timeZone: zone, hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit' };
  const parts = new Intl.DateTimeFormat('en-CA', { ...options, hour: '2-digit', minute: '2-digit', second: '2-digit' });
  const at = Object.fromEntries(parts.formatToParts(seconds * 1000).map(({ type, value }) => [type, value]));
  return Date.parse(`${at.year}-${at.month}-${at.day}T${at.hour}:${at.minute}:${at.second}Z`) / 1000 - seconds;
}

/** The time of a local date and time (YYYY-MM-DD or YYYY-MM-DDTHH:MM) in the zone, in Unix seconds. */
export function localTime(text) {
  const utc = Date.parse(`${text.length === 10 ? `${text}T00:00` : text}:00Z`) / 1000;
  // Twice: the first guess may lie on the other side of a change of the clock.
  const guess = utc - ahead(utc);
  return utc - ahead(guess);
}

// Letters that Unicode does not decompose into a base letter and an accent.
const LETTERS = { ß: 'ss', æ: 'ae', œ: 'oe', ø: 'o', đ: 'd', ð: 'd', þ: 'th', ł: 'l', ı: 'i' };

/** A text as searches compare it: in lower case, without accents. */
const fold = (text) =>
  String(text ?? '')
    .toLowerCase()
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .replace(/[ßæœøđðþłı]/g, (letter) => LETTERS[letter]);

/** Whether texts contain all words of a search, in any order. */
export function finder(search) {
  const words = fold(search).split(/\s+/).filter(Boolean);
  return (texts) => {
    const all = texts.map(fold);
    return words.every((word) => all.some((text) => text.includes(word)));
  };
}

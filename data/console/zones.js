// The choice of the time zone, which holds for all pages of this tab.
import { preference } from './api.js';
import { choice } from './dom.js';
import { BROWSER_ZONE, t, zoneName } from './i18n.js';

/** A select of all zones that the browser knows, its own first; the page is drawn again when another is chosen. */
export function zoneChoice() {
  const others = Intl.supportedValuesOf('timeZone').filter((zone) => zone !== BROWSER_ZONE && zone !== 'UTC');
  const options = [
    [BROWSER_ZONE, BROWSER_ZONE],
    ...(BROWSER_ZONE === 'UTC' ? [] : [['UTC', 'UTC']]),
    ...others.map((zone) => [zone, zone]),
  ];
  const element = choice(t`Time zone`, 'zone', options, zoneName());
  element.querySelector('select').addEventListener('change', ({ target }) => {
    preference.set('zone', target.value);
    dispatchEvent(new Event('preferences'));
  });
  return element;
}

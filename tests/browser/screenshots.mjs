// Renews the screenshots of the documentation from the demo: `npm run screenshots --prefix tests/browser`.
import path from 'node:path';
import { startAppliance } from './lib/appliance.mjs';
import { launch } from './lib/browser.mjs';

const DOCS = path.resolve(import.meta.dirname, '../../docs');
const VIEWPORT = { width: 1280, height: 760 };

const appliance = await startAppliance();
const browser = await launch();
const { livestreams, baseUrl, opsUrl, operatorToken } = appliance.demo;

async function consoleSchedule(page) {
  await page.goto(opsUrl);
  await page.fill('#token', operatorToken);
  await page.click('#log-in button');
  await page.waitForFunction(() => !document.querySelector('#log-in button')?.checkVisibility());
  await page.evaluate(() => void (location.hash = '#/schedule'));
  await page.getByText('Match: Harbour v. Mill').first().click();
  await page.waitForLoadState('networkidle');
}

async function labPlayer(page) {
  await page.goto(`${baseUrl}/lab/`);
  await page.click(`[data-asset="${livestreams.open}"]`);
  await page.getByText('playback/v1/heartbeat').first().waitFor();
}

try {
  for (const [name, open] of Object.entries({ console: consoleSchedule, lab: labPlayer })) {
    for (const colorScheme of ['light', 'dark']) {
      const context = await browser.newContext({ viewport: VIEWPORT, colorScheme, locale: 'en-GB', timezoneId: 'Europe/Stockholm' });
      const page = await context.newPage();
      await open(page);
      await page.screenshot({ path: path.join(DOCS, `${name}-${colorScheme}.png`) });
      await context.close();
    }
  }
} finally {
  await browser.close();
  await appliance.stop();
}

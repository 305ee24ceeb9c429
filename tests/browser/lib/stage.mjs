// What a test stands on: an appliance, the partner's site, a browser, and viewers who come new to each test.
import { after, before, describe, test } from 'node:test';
import { startAppliance } from './appliance.mjs';
import { launch, skip } from './browser.mjs';
import { startSite } from './site.mjs';
import { openViewer } from './viewer.mjs';

const TEST_TIMEOUT_MS = 300_000;
// Each decodes in software: more at once than this starve one another on a small machine.
const AT_ONCE = 3;

/**
 * Tests that share one appliance, and a browser. `settings` are the appliance's by their environment variables;
 * `together` runs several of the tests at once, for those that mostly wait. `define` gets the function that adds a test; its steps
 * get a viewer, and with it the `appliance`, its `demo` and `join`, which brings another viewer.
 */
export function onAppliance(title, { settings = {}, together = false }, define) {
  describe(title, { concurrency: together ? AT_ONCE : 1 }, () => {
    let appliance, site, browser;

    before(async () => {
      if (skip) return;
      appliance = await startAppliance(settings);
      site = await startSite();
      browser = await launch();
    });

    after(async () => {
      await browser?.close();
      await site?.stop();
      await appliance?.stop();
    });

    define((name, steps) =>
      test(name, { skip, timeout: TEST_TIMEOUT_MS }, async () => {
        const viewers = [];
        const join = async () => {
          viewers.push(await openViewer(browser, site, appliance.demo));
          return viewers.at(-1);
        };
        try {
          await steps(await join(), { appliance, browser, site, demo: appliance.demo, join });
        } finally {
          for (const viewer of viewers) await viewer.close();
        }
      }),
    );
  });
}

// Reads the demo's test card from a screenshot. A screenshot and not a canvas: browsers keep the pixels of
// encrypted video from scripts, but what they show is what a viewer sees.
import assert from 'node:assert/strict';

// The colour bars of the card, left to right, by the middle of each as a part of the width.
const BARS = [
  [0.178, [191, 191, 191]],
  [0.297, [191, 191, 0]],
  [0.403, [0, 191, 191]],
  [0.509, [0, 191, 0]],
  [0.616, [191, 0, 191]],
  [0.719, [191, 0, 0]],
  [0.822, [0, 0, 191]],
];
const BARS_AT = 0.15; // of the height
const STRIP_AT = 0.93; // where the white bar moves
const CLIP_SECONDS = 10;
const COLOUR_TOLERANCE = 30; // of 255: the codec's and the colour conversion's
const TIME_TOLERANCE = 0.4; // seconds: the screenshot is taken between two readings of the clock

/** Checks that the page's video shows the card, at the moment that the page says; which second of the clip it is. */
export async function assertShowsCard(page) {
  const before = await page.evaluate(() => client.position());
  const png = await page.locator('#video').screenshot();
  const after = await page.evaluate(() => client.position());
  const { bars, strip } = await pixels(page, png);
  for (const [i, [, wanted]] of BARS.entries()) {
    const far = Math.max(...wanted.map((value, channel) => Math.abs(value - bars[i][channel])));
    assert.ok(far <= COLOUR_TOLERANCE, `bar ${i} is ${bars[i]}, not ${wanted}`);
  }
  const white = strip.flatMap((level, x) => (level > 128 ? [x] : []));
  assert.ok(white.length > 0, 'the moving bar is not in the picture');
  const shown = (white[0] / (strip.length - white.length)) * CLIP_SECONDS;
  // The clip may go round: how long after `before` it shows what it does.
  const later = (((shown - before + TIME_TOLERANCE) % CLIP_SECONDS) + CLIP_SECONDS) % CLIP_SECONDS;
  assert.ok(
    later < after - before + 2 * TIME_TOLERANCE,
    `the picture shows ${shown.toFixed(2)} s, the player says ${before.toFixed(2)} to ${after.toFixed(2)} s`,
  );
  return shown;
}

// The browser decodes its own screenshot.
const pixels = (page, png) =>
  page.evaluate(
    async ({ png, places, barsAt, stripAt }) => {
      const bytes = Uint8Array.from(atob(png), (c) => c.charCodeAt(0));
      const image = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
      const context = new OffscreenCanvas(image.width, image.height).getContext('2d', { willReadFrequently: true });
      context.drawImage(image, 0, 0);
      const row = (at) => context.getImageData(0, Math.floor(at * image.height), image.width, 1).data;
      const bars = row(barsAt);
      const strip = row(stripAt);
      return {
        bars: places.map((place) => [...bars.slice(4 * Math.floor(place * image.width)).slice(0, 3)]),
        strip: Array.from({ length: image.width }, (_, x) => strip[4 * x]),
      };
    },
    { png: png.toString('base64'), places: BARS.map(([place]) => place), barsAt: BARS_AT, stripAt: STRIP_AT },
  );

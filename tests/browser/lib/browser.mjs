// Headless Chromium from the distribution, driven by playwright-core, with a profile of its own each time. Its headless shell is the
// same browser without windows, and takes half the processor time.
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

const INSTALLED = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];
const PROGRAM = process.env.CHROMIUM ?? INSTALLED.find((file) => existsSync(file)) ?? INSTALLED[0];
const FLAGS = [
  '--headless',
  '--no-sandbox', // test machines run as root
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--autoplay-policy=no-user-gesture-required',
];

/** Why the tests cannot run here, or false. With CI=true nothing is skipped: the launch then fails. */
export const skip =
  !existsSync(PROGRAM) && process.env.CI !== 'true'
    ? `skipped: no Chromium at ${PROGRAM} (install Debian's chromium-headless-shell or chromium, or set CHROMIUM)`
    : false;

export const launch = () => chromium.launch({ executablePath: PROGRAM, args: FLAGS });

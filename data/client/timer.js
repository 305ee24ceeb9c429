// A timer that keeps time in pages that nobody sees. Browsers slow the timers of such pages to one a minute, but not those of
// workers. Where a page may have no worker (its policy, or Node.js) it is an ordinary timer.

const PROGRAM = `
  const timers = new Map();
  onmessage = ({ data: { id, wait } }) => {
    clearTimeout(timers.get(id));
    timers.delete(id);
    if (wait !== undefined) timers.set(id, setTimeout(() => { timers.delete(id); postMessage(id); }, wait));
  };`;

/** @type {Worker | null | undefined} undefined before the first timer, null where there is none */
let worker;
let count = 0;
/** @type {Map<number, {run: () => void, due: number}>} */
const pending = new Map();

/** @param {number} id */
function fire(id) {
  const timer = pending.get(id);
  pending.delete(id);
  timer?.run();
}

/** The worker has failed: its timers become ordinary ones. */
function doWithout() {
  worker = null;
  for (const [id, { due }] of pending) setTimeout(() => fire(id), due - performance.now());
}

function startWorker() {
  if (typeof Worker === 'undefined' || typeof document === 'undefined') return null;
  try {
    const address = URL.createObjectURL(new Blob([PROGRAM], { type: 'text/javascript' }));
    const started = new Worker(address);
    started.onmessage = ({ data }) => fire(data);
    started.onerror = doWithout;
    return started;
  } catch {
    return null;
  }
}

/**
 * Runs a function once.
 * @param {number} seconds
 * @param {() => void} run
 * @returns {() => void} a function that stops the timer
 */
export function after(seconds, run) {
  if (worker === undefined) worker = startWorker();
  const id = (count += 1);
  const wait = Math.max(0, seconds * 1000);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let ordinary;
  pending.set(id, { run, due: performance.now() + wait });
  if (worker) worker.postMessage({ id, wait });
  else ordinary = setTimeout(() => fire(id), wait);
  return () => {
    if (!pending.delete(id)) return;
    clearTimeout(ordinary);
    worker?.postMessage({ id });
  };
}

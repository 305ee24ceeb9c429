// A timer that keeps time in pages that nobody sees. Browsers slow the timers of such pages to one a minute, but not those of
// workers. An ordinary timer runs beside it: a page may have no worker (its policy, or Node.js), and one that starts is late.

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
/** @type {Map<number, {run: () => void, ordinary: ReturnType<typeof setTimeout>}>} */
const pending = new Map();

/** Whichever comes first counts. @param {number} id */
function fire(id) {
  const timer = pending.get(id);
  pending.delete(id);
  clearTimeout(timer?.ordinary);
  timer?.run();
}

function startWorker() {
  if (typeof Worker === 'undefined' || typeof document === 'undefined') return null;
  try {
    const address = URL.createObjectURL(new Blob([PROGRAM], { type: 'text/javascript' }));
    const started = new Worker(address);
    started.onmessage = ({ data }) => fire(data);
    started.onerror = () => (worker = null);
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
  pending.set(id, { run, ordinary: setTimeout(() => fire(id), wait) });
  worker?.postMessage({ id, wait });
  return () => {
    clearTimeout(pending.get(id)?.ordinary);
    if (pending.delete(id)) worker?.postMessage({ id });
  };
}

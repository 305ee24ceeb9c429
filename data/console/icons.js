// The icons of menu and messages: lines in a square of 24.
import { el, svg } from './dom.js';

const PATHS = {
  overview: 'M4 14a8 8 0 0 1 16 0M12 14l4-4M4 19h16',
  sessions: 'M7 4.5l12 7.5-12 7.5z',
  requests: 'M4 7h14m-4-4 4 4-4 4M20 17H6m4-4-4 4 4 4',
  quality: 'M4 20V11m5 9V4m5 16v-6m5 6V8',
  users: 'M9 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM2 21a7 7 0 0 1 14 0M16 3.5a4 4 0 0 1 0 7M18 15a7 7 0 0 1 4 6',
  why: 'M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6zM8.5 12l2.5 2.5 4.5-5',
  mail: 'M3 5.5h18v13H3zM3 6.5l9 7 9-7',
  schedule: 'M3 5h18v16H3zM3 10h18M8 2.5V6m8-3.5V6M7 14h6',
  catalog: 'M4 4h16v16H4zM8.5 4v16M15.5 4v16M4 9h4.5m7 0H20M4 15h4.5m7 0H20',
  guides: 'M5.5 18.5h.01M4 11a9 9 0 0 1 9 9M4 4a16 16 0 0 1 16 16',
  access: 'M14 14.5a5 5 0 1 0-4.7-3.8L3 17v4h4v-2.5h2.500V16h2.200zM15.5 8.500h.01',
  lab: 'M9 3h6M10 3v6L4.5 18.500A1.7 1.7 0 0 0 6 21h12a1.7 1.7 0 0 0 1.5-2.500L14 9V3M7.5 15h9',
  store: 'M3 4h18v5H3zM5 9v11h14V9M10 13h4',
  fleet: 'M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01',
  audit: 'M6 3h12v18H6zM9 8h6m-6 4h6m-6 4h3',
  good: 'M4.5 12.500l5 5 10-11',
  warn: 'M12 4 3 20h18zM12 10v4.500m0 2.500v.01',
  bad: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7.500v5.500m0 3v.01',
};

/** An icon; the words beside it say what it means. */
export const icon = (name) =>
  svg('svg', { class: `icon ${name}`, viewBox: '0 0 24 24', 'aria-hidden': 'true' }, svg('path', { d: PATHS[name] }));

/** An item of a list of troubles: `good`, `warn` or `bad`. */
export const notice = (kind, name, text, button) => el(`li.${kind}`, icon(kind), el('div', el('strong', name), ' ', text), button);

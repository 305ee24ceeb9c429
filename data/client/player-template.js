// The elements of the player and how they look. Pages change that by custom properties and parts.

/** Icons as paths in a square of 24. */
const ICONS = {
  play: 'M7 4v16l13-8z',
  pause: 'M6 4h4v16H6zM14 4h4v16h-4z',
  replay: 'M12 5V1L6 6l6 5V7a5 5 0 1 1-5 5H5a7 7 0 1 0 7-7z',
  startOver: 'M5 4h3v16H5zM20 4v16L9 12z',
  volume: 'M3 9v6h4l6 5V4L7 9zM16 8a5 5 0 0 1 0 8z',
  muted: 'M3 9v6h4l6 5V4L7 9zM15.5 9l1.4-1.4 5 5-1.4 1.4zM20.5 7.6 22 9l-5 5-1.500-1.400z',
  fullscreen: 'M4 4h6v2H6v4H4zM14 4h6v6h-2V6h-4zM4 14h2v4h4v2H4zM18 14h2v6h-6v-2h4z',
  pip: 'M3 5h18v14H3zm2 2v10h14V7zm6 4h7v5h-7z',
};

/** @param {keyof typeof ICONS} name */
export const icon = (name) => `<svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true"><path d="${ICONS[name]}"/></svg>`;

/** As a sheet of its own and no element: a page's policy may forbid inline styles. */
export const STYLE = `
:host { display: grid; position: relative; aspect-ratio: 16 / 9; color: #fff; background: #000; overflow: clip;
  font: 1rem/1.4 var(--playgate-font, system-ui, sans-serif); border-radius: var(--playgate-radius, 0); container-type: inline-size; }
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; }
.stage { display: grid; }
video { position: absolute; inset: 0; width: 100%; height: 100%; object-fit: contain; }
:focus-visible { outline: 3px solid var(--playgate-focus, #fff); outline-offset: 2px; box-shadow: 0 0 0 5px #000; }
.controls { position: absolute; inset: auto 0 0; padding: 3rem .75rem .5rem; display: flex; flex-wrap: wrap; align-items: center; gap: .25rem;
  background: linear-gradient(transparent, #000a 40%, #000d); transition: opacity .2s; }
.idle .controls { opacity: 0; }
.idle { cursor: none; }
.controls:focus-within { opacity: 1 !important; }
.title { flex: 1 1 100%; margin: 0; padding: 0 .5rem; font-weight: 600; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.time { padding: 0 .5rem; font-variant-numeric: tabular-nums; font-size: .875rem; white-space: nowrap; }
.space { flex: 1; }
input[type=range] { height: 1.5rem; margin: 0; accent-color: var(--playgate-accent, #4da3ff); cursor: pointer; }
.seek { flex: 1 1 100%; }
.volume { width: 5rem; }
button, select { font: inherit; color: inherit; background: none; border: 0; border-radius: .375rem; min-width: 2.75rem; min-height: 2.75rem;
  display: inline-flex; align-items: center; justify-content: center; cursor: pointer; }
.controls button:hover, select:hover { background: #fff3; }
.controls svg, .big svg { fill: currentColor; }
select { max-width: 8rem; padding: 0 .25rem; font-size: .875rem; }
option { color: #000; background: #fff; }
.live { gap: .375rem; padding: 0 .5rem; font-size: .875rem; font-weight: 600; }
.live::before { content: ''; width: .625rem; height: .625rem; border-radius: 50%; background: #999; }
.live[aria-pressed=true]::before { background: var(--playgate-live, #ff4d4d); }
.panel { position: relative; margin: .5rem auto; align-self: center; width: min(22rem, 100% - 1rem);
  padding: 1rem; border-radius: .75rem; display: flex; flex-direction: column; gap: .75rem; text-align: center;
  color: var(--playgate-panel-text, #16202b); background: var(--playgate-panel, #fff); }
.panel form { display: contents; }
.panel p { margin: 0; }
.panel input { font: inherit; width: 100%; padding: .5rem; border: 1px solid #767f89; border-radius: .375rem; color: inherit; background: transparent; }
.panel label { display: block; text-align: start; font-size: .875rem; }
.panel button { background: var(--playgate-panel-button, #e4e8ed); padding: 0 .75rem; }
.panel .main { color: var(--playgate-on-accent, #fff); background: var(--playgate-main, #0b5cad); }
.panel .digits { display: grid; grid-template-columns: repeat(3, 1fr); gap: .375rem; }
.panel .pin { text-align: center; font-size: 1.25rem; letter-spacing: .4em; }
.status { position: absolute; inset: 40% 1rem auto; margin: 0 auto; width: fit-content; padding: .5rem 1.25rem; border-radius: 1.5rem; text-align: center; text-wrap: balance; background: #000c; pointer-events: none; }
.status:empty { padding: 0; }
.held video { opacity: .2; }
@media (prefers-color-scheme: dark) {
  .panel { color: var(--playgate-panel-text, #e8edf2); background: var(--playgate-panel, #1b232c); }
  .panel button { background: var(--playgate-panel-button, #36414d); }
}
@media (prefers-reduced-motion: reduce) { .controls { transition: none; } }
@container (max-width: 30rem) {
  .volume { display: none; }
  select { width: 3.5rem; }
  .whole, .pip { display: none; }
  .controls { padding-inline: .25rem; gap: 0; }
  .controls button { min-width: 2.5rem; }
  .panel { padding: .625rem; gap: .375rem; }
  .panel .digits button { min-height: 2rem; }
}`;

/**
 * @param {import('./player-texts.js').Texts} t
 */
export const template = (t) => `
<div class="stage" part="stage" role="region" aria-label="${t.player}">
<video part="video" playsinline></video>
<p class="status" part="status" role="status"></p>
<div class="controls" part="controls">
<p class="title" part="title"></p>
<input class="seek" part="seek" type="range" step="any" aria-label="${t.seek}">
<button class="play" part="button play" type="button" aria-label="${t.play}">${icon('play')}</button>
<button class="start-over" part="button start-over" type="button" aria-label="${t.startOver}" title="${t.startOver}" hidden>${icon('startOver')}</button>
<button class="live" part="button live" type="button" hidden>${t.live}</button>
<span class="time" part="time"><span class="now"></span><span class="whole"></span></span>
<span class="space"></span>
<button class="mute" part="button mute" type="button" aria-label="${t.mute}">${icon('volume')}</button>
<input class="volume" part="volume" type="range" min="0" max="1" step="0.05" aria-label="${t.volume}">
<select class="audio" part="select audio" aria-label="${t.audio}" hidden></select>
<select class="subtitles" part="select subtitles" aria-label="${t.subtitles}" hidden></select>
<select class="quality" part="select quality" aria-label="${t.quality}" hidden></select>
<button class="pip" part="button pip" type="button" aria-label="${t.pip}" title="${t.pip}" hidden>${icon('pip')}</button>
<button class="fullscreen" part="button fullscreen" type="button" aria-label="${t.fullscreen}" title="${t.fullscreen}">${icon('fullscreen')}</button>
</div>
</div>`;

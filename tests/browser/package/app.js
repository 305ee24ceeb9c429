// A partner's page, made of @playgate/client and one of five players. `client`, `session` and `play` are what the tests reach.
import { PlaybackSession, PlaygateClient } from '/client/playgate-client.js';

const settings = Object.fromEntries(new URLSearchParams(location.search));
const video = document.getElementById('video');
const form = document.getElementById('pin');

const script = (src) =>
  new Promise((done, fail) => document.head.append(Object.assign(document.createElement('script'), { src, onload: done, onerror: fail })));

const adapters = {
  async shaka() {
    await script('/npm/shaka-player.compiled.js');
    const { ShakaAdapter } = await import('/client/adapter-shaka.js');
    return new ShakaAdapter(shaka, video, { cmcd: settings.cmcd === 'true' });
  },
  async dashjs() {
    await script('/npm/dash.all.min.js');
    const { DashAdapter } = await import('/client/adapter-dash.js');
    return new DashAdapter(dashjs, video, { cmcd: settings.cmcd === 'true' });
  },
  async hlsjs() {
    await script('/npm/hls.min.js');
    const { HlsAdapter } = await import('/client/adapter-hls.js');
    return new HlsAdapter(Hls, video);
  },
  async builtin() {
    const { BuiltinAdapter } = await import('/client/adapter-builtin.js');
    return new BuiltinAdapter(video);
  },
  async video() {
    const { VideoAdapter } = await import('/client/adapter-video.js');
    return new VideoAdapter(video);
  },
};

/** Shows the field, and resolves with what is typed; null when the question is withdrawn. */
function askPin(error, signal) {
  document.getElementById('message').textContent = error.userMessage;
  form.hidden = false;
  return new Promise((done) => {
    const close = (value) => {
      form.hidden = true;
      done(value);
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      close(document.getElementById('pin-code').value);
    };
    signal.addEventListener('abort', () => close(null));
  });
}

window.complaints = [];
addEventListener('unhandledrejection', ({ reason }) => window.complaints.push(`unhandled: ${reason?.stack ?? reason}`));

const { baseUrl, partnerToken, identity, accessKey } = settings;
window.client = new PlaygateClient({
  baseUrl,
  partnerToken,
  credentials: async () => ({ identity, accessKey }),
  app: { name: 'package test', version: '1.0' },
});
const adapter = await adapters[settings.player]();
window.session = new PlaybackSession(client, adapter, { askPin });
session.addEventListener('statechange', () => {
  document.getElementById('message').textContent = session.error?.userMessage ?? session.state;
  (window.states ??= []).push(session.state);
});
window.ready = true;

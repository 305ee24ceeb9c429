// The interface as a partner's developer calls it: plain fetch calls, the header maps of the answers sent back
// unchanged. Every call resolves with `{status, body}`; with the status 0 if the network was away.

const AWAY = { status: 0, body: { error: { code: 'AWAY', user_message: 'The service cannot be reached.' } } };

export class Service {
  baseUrl = ''; // of the appliance; another origin than this page's
  partnerToken = '';
  userToken = '';
  device = {
    'Service-Play-DevicePlatform': 'web',
    'Service-Play-DeviceType': 'browser',
    'Service-Play-DeviceModel': 'Chromium',
    'Service-Play-DeviceId': `browser-${crypto.randomUUID()}`,
  };
  #account = []; // how the user logs in
  playback = {}; // what license and heartbeat requests carry, from the preflight on

  credentials() {
    return {
      'Service-AccessToken': this.partnerToken,
      ...(this.userToken && { Authorization: `Bearer ${this.userToken}` }),
    };
  }

  /** What a license request carries. */
  licenseHeaders() {
    return { ...this.credentials(), ...this.playback };
  }

  /** `path` may be an absolute address that an earlier answer gave. */
  async call(method, path, { headers = {}, body } = {}) {
    try {
      const response = await fetch(new URL(path, this.baseUrl), {
        method,
        headers: {
          ...this.credentials(),
          ...headers,
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      const text = await response.text();
      return { status: response.status, body: text === '' ? null : JSON.parse(text) };
    } catch {
      return AWAY;
    }
  }

  /** Signs up (PUT) or logs in (POST) and keeps the user's token. */
  async identify(method, identity, accessKey) {
    this.userToken = '';
    this.#account = [identity, accessKey];
    const answer = await this.call(method, '/api/login/v2/auth/email', { body: { identity, accessKey } });
    if (answer.status === 200) this.userToken = answer.body.token;
    return answer;
  }

  /** After the user token was refused. */
  logInAgain() {
    return this.identify('POST', ...this.#account);
  }

  /** `session` says whether the running session asks. */
  entitle(assetId, { offset = 0, pinCode, session = false } = {}) {
    const query = offset ? `?offset=${offset}` : '';
    return this.call('POST', `/api/entitlement/v2/asset/${encodeURIComponent(assetId)}${query}`, {
      headers: session ? { 'Service-Play-Session': this.playback['Service-Play-Session'] } : {},
      body: pinCode && { pinCode },
    });
  }

  async preflight(assetId, entitlement, drm, protocol) {
    const asked = { 'Service-Play-DRM': drm, 'Service-Play-Protocol': protocol, ...this.device };
    const answer = await this.call('POST', `/api/playback/v2/preflight/asset/${encodeURIComponent(assetId)}`, {
      headers: { ...asked, 'Service-Play-EntitlementId': entitlement },
    });
    if (answer.status === 200) this.playback = { ...asked, ...answer.body.headers };
    return answer;
  }

  /** A later token of the same session. */
  renew(entitlement) {
    this.playback['Service-Play-EntitlementId'] = entitlement;
  }

  /** `position` in seconds: Unix seconds for live and catch-up, from the start otherwise. */
  heartbeat(address, { position, bitrate, width, height }) {
    return this.call('POST', address, {
      headers: {
        ...this.playback,
        'Service-Play-Timestamp': String(Math.floor(position)),
        'Service-Play-Bitrate': String(Math.round(bitrate)),
        'Service-Play-ResolutionWidth': String(width),
        'Service-Play-ResolutionHeight': String(height),
      },
    });
  }

  /** Ends the session. */
  end(address) {
    return this.call('DELETE', address, { headers: this.playback });
  }

  telemetry(events) {
    return this.call('POST', '/api/tracker/v1/telemetry-events', { body: events });
  }
}

// The ways in which the page can be told to play: a player, a DRM system, a protocol.

export const SHAKA = { player: 'shaka', drm: 'clearkey', protocol: 'dash' };
export const DASHJS = { player: 'dashjs', drm: 'clearkey', protocol: 'dash' };
export const RXPLAYER = { player: 'rxplayer', drm: 'clearkey', protocol: 'dash' };
export const VIDEOJS = { player: 'videojs', drm: 'none', protocol: 'hls' };
export const HLSJS = { player: 'hlsjs', drm: 'none', protocol: 'hls' };

export const inTheClear = (way, protocol = way.protocol) => ({ ...way, drm: 'none', protocol });

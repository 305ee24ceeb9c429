// @playgate/player: `<playgate-player>`. See docs/clients.md.

import { PlaygatePlayer } from './player-element.js';

export { PlaygatePlayer };

if (!customElements.get('playgate-player')) customElements.define('playgate-player', PlaygatePlayer);

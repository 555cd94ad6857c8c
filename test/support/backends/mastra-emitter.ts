/** Mastra's own PubSub of one process, as a user's backend, with leases of the same process. */

import { EventEmitterPubSub } from '@mastra/core/events';

export default new EventEmitterPubSub();

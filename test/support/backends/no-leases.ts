/** The smallest PubSub that keeps the contract, as a user's backend. */

import { SmallPubSub } from '../../contract/mailbox.small-pubsub.ts';

export default new SmallPubSub();

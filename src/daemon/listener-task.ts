import {removeEndpoint} from '../admin/webhooks.ts';
import {idFloor} from '../mail/ids.ts';
import type {Acting} from '../mail/operator.ts';
import type {Store} from '../store/store.ts';
import {findAbandoned} from '../store/webhooks.ts';
import type {SweepTask} from './sweep.ts';

/** `webhook listen` takes an event as soon as it is there; one that was suspended with its machine may come back. */
const patienceMs = 3_600_000;

/** Endpoints of `webhook listen` that was killed and so could not remove its own. */
export function listenerTask({store, acting}: {readonly store: Store; readonly acting: Acting}): SweepTask {
	return {
		name: 'webhook_listeners',
		begin() {
			const before = idFloor('whd', acting.clock.now() - patienceMs);
			return async () => {
				for (const {id, workspaceId} of await findAbandoned(store.reader, before)) {
					await store.writer.transaction(trx => removeEndpoint(trx, acting, workspaceId, id));
				}
				return false;
			};
		},
	};
}

import type {Knex} from 'knex';
import {isId} from '../mail/ids.ts';
import {insertSuppressions, type NewSuppression} from '../store/suppressions.ts';
import type {Subscriber} from '../store/webhooks.ts';
import {type Notifier, notify} from './outbox.ts';

/** An entry, and the message whose link made it, where its source does not say. */
type Suppressing = NewSuppression & {readonly messageId?: string};

/** Puts addresses on the list and tells endpoints of those that were not there. Answers the ids of the entries that are new. */
export async function suppressAddresses(
	trx: Knex.Transaction,
	entries: readonly Suppressing[],
	notifier: Notifier,
	subscribers?: readonly Subscriber[],
): Promise<Set<string>> {
	const added = await insertSuppressions(trx, entries);
	await notify(
		trx,
		entries
			.filter(({id}) => added.has(id))
			.map(({id, workspaceId, address, reason, source, mode, createdAt, messageId}) => ({
				type: 'recipient_suppressed',
				workspaceId,
				messageId: messageId ?? (isId('msg', source) ? source : null),
				recipient: address,
				at: createdAt,
				detail: {id, reason, source},
				isTest: mode === 'test',
			})),
		notifier,
		subscribers,
	);
	return added;
}

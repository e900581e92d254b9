import type {Knex} from 'knex';
import {isId} from '../mail/ids.ts';
import type {Recipient} from '../mail/message.ts';
import {insertSuppressions, type NewSuppression} from '../resources/suppressions/store.ts';
import type {Subscriber} from '../resources/webhooks/store.ts';
import {type Notice, type Notifier, notify} from './outbox.ts';

/** Returns the suppression of an address that hard-bounced. */
export const hardBounceOf = (
	recipient: Pick<Recipient, 'workspace_id' | 'address' | 'address_key' | 'message_id'>,
	at: string,
	id: string,
): NewSuppression => ({
	id,
	workspaceId: recipient.workspace_id,
	address: recipient.address,
	addressKey: recipient.address_key,
	reason: 'hard_bounce',
	source: recipient.message_id,
	createdAt: at,
});

/**
 * Adds addresses to the suppression list and notifies endpoints of new ones. Use `messageId` if the source is not a
 * message. Returns the ids of the new entries.
 */
export async function suppressAddresses(
	trx: Knex.Transaction,
	entries: ReadonlyArray<NewSuppression & {readonly messageId?: string}>,
	notifier: Notifier,
	subscribers?: readonly Subscriber[],
): Promise<Set<string>> {
	const added = await insertSuppressions(trx, entries);
	const notices = entries
		.filter(({id}) => added.has(id))
		.map(({id, workspaceId, address: recipient, reason, source, mode, createdAt: at, messageId}): Notice => {
			const common = {workspaceId, messageId: messageId ?? (isId('msg', source) ? source : null), recipient};
			const detail = {id, reason, source};
			return {type: 'recipient_suppressed', ...common, at, detail, isTest: mode === 'test'};
		});
	await notify(trx, notices, notifier, subscribers);
	return added;
}

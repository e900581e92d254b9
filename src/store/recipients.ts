import type {Knex} from 'knex';
import type {Role} from '../mail/message.ts';
import type {RecipientState} from '../mail/recipient-state.ts';
import {insertRows} from './insert-rows.ts';

/** A copy of a new message; times in the store's form. */
export type NewRecipient = {
	readonly id: string;
	readonly workspaceId: string;
	readonly messageId: string;
	/** As the caller spelled it. */
	readonly address: string;
	readonly addressKey: string;
	readonly role: Role;
	/** The address's domain in A-labels. */
	readonly destination: string;
	readonly state: RecipientState;
	readonly stateAt: string;
	/** Null: never, it is final already. */
	readonly nextAttemptAt: string | null;
};

export async function insertRecipients(trx: Knex.Transaction, recipients: readonly NewRecipient[]): Promise<void> {
	await insertRows(
		trx,
		'recipients',
		[
			'id',
			'workspace_id',
			'message_id',
			'address',
			'address_key',
			'role',
			'destination',
			'state',
			'state_at',
			'next_attempt_at',
			'attempts',
			'crashes',
		],
		recipients.map(one => [
			one.id,
			one.workspaceId,
			one.messageId,
			one.address,
			one.addressKey,
			one.role,
			one.destination,
			one.state,
			one.stateAt,
			one.nextAttemptAt,
			0,
			0,
		]),
	);
}

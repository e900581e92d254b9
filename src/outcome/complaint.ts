import type {Knex} from 'knex';
import type {Role} from '../mail/message.ts';
import {moveRecipients} from '../store/recipients.ts';
import {type AnnouncedEvent, announce, type EventWriter} from './outbox.ts';
import {suppressAddresses} from './suppress.ts';

/** A recipient marked a mail as spam; times in the store's form. */
export type Complaint = {
	readonly recipientId: string;
	readonly workspaceId: string;
	readonly messageId: string;
	readonly address: string;
	readonly addressKey: string;
	readonly role: Role;
	readonly occurredAt: string;
	readonly recordedAt: string;
	/** Whether usage counts it (`isCounted`); a second one for the same recipient is not counted again. */
	readonly counted: boolean;
	/** False: it was mail of a test key, which blocks no real address. */
	readonly suppresses: boolean;
	/** The event's detail in the timeline, without the recipient. */
	readonly detail: Readonly<Record<string, unknown>>;
};

/**
 * Writes complaints: the state if it may change, always the event, and a hard block of the address, with as its source the
 * message.
 */
export async function recordComplaints(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	complaints: readonly Complaint[],
): Promise<void> {
	const events: AnnouncedEvent[] = [];
	for (const {
		address: recipient,
		role,
		addressKey: _key,
		detail,
		counted,
		suppresses: _suppresses,
		...complaint
	} of complaints) {
		const moved = await moveRecipients(trx, [complaint.recipientId], 'complained', complaint.occurredAt);
		events.push({
			...complaint,
			id: eventWriter.newId('evt'),
			type: 'complained',
			recipient,
			detail: JSON.stringify({recipient, role, ...detail}),
			counted: counted && moved.size === 1,
		});
	}
	await announce(trx, events, eventWriter);
	await suppressAddresses(
		trx,
		complaints
			.filter(({suppresses}) => suppresses)
			.map(({workspaceId, messageId, address, addressKey, recordedAt}) => ({
				id: eventWriter.newId('sup'),
				workspaceId,
				address,
				addressKey,
				reason: 'complaint',
				source: messageId,
				createdAt: recordedAt,
			})),
		eventWriter,
	);
}

import type {Knex} from 'knex';
import type {Recipient} from '../mail/message.ts';
import {isCounted} from '../mail/simulator.ts';
import {moveRecipients} from '../store/recipients.ts';
import {type AnnouncedEvent, announce, type EventWriter, ofRecipient} from './outbox.ts';
import {suppressAddresses} from './suppress.ts';

/** A recipient marked a message as spam. Times are in the store's format. */
export type Complaint = {
	readonly recipient: Pick<
		Recipient,
		'id' | 'workspace_id' | 'message_id' | 'address' | 'address_key' | 'role' | 'destination'
	>;
	readonly occurredAt: string;
	readonly recordedAt: string;
	/** `false` for mail of a test key, which suppresses no real address. */
	readonly suppresses: boolean;
	/** The detail of the timeline event, without the recipient. */
	readonly detail: Readonly<Record<string, unknown>>;
};

/** Records complaints: the state if it may change, always the event, and a suppression with the message as source. */
export async function recordComplaints(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	complaints: readonly Complaint[],
): Promise<void> {
	const events: AnnouncedEvent[] = [];
	for (const {recipient, occurredAt, recordedAt, detail} of complaints) {
		const {address, role, destination} = recipient;
		const moved = await moveRecipients(trx, [recipient.id], 'complained', occurredAt);
		events.push({
			...ofRecipient(recipient),
			id: eventWriter.newId('evt'),
			type: 'complained',
			occurredAt,
			recordedAt,
			detail: JSON.stringify({recipient: address, role, ...detail}),
			// A second complaint about the same recipient is not counted.
			isCounted: isCounted(role, destination) && moved.size === 1,
		});
	}
	await announce(trx, events, eventWriter);
	await suppressAddresses(
		trx,
		complaints
			.filter(({suppresses}) => suppresses)
			.map(({recipient, recordedAt}) => ({
				id: eventWriter.newId('sup'),
				workspaceId: recipient.workspace_id,
				address: recipient.address,
				addressKey: recipient.address_key,
				source: recipient.message_id,
				reason: 'complaint',
				createdAt: recordedAt,
			})),
		eventWriter,
	);
}

import type {Knex} from 'knex';
import {trackingOf} from '../mail/message.ts';
import {isCounted, simulatedLink} from '../mail/simulator.ts';
import {type Complaint, recordComplaints} from './complaint.ts';
import {type Engaged, recordEngagement} from './engagement.ts';
import type {EventWriter} from './outbox.ts';
import type {JudgedTry} from './settle.ts';

/**
 * Writes the complaint, open or click that the simulator adds to a delivery, as for real mail. It is part of the
 * outcome's transaction: a crash keeps both or none.
 */
export async function recordFollowing(
	trx: Knex.Transaction,
	eventWriter: EventWriter,
	recorded: readonly JudgedTry[],
): Promise<void> {
	const following = recorded.filter(({verdict: {outcome}}) => outcome.kind === 'delivered' && outcome.follows);
	if (following.length > 0) {
		await recordComplaints(trx, eventWriter, following.flatMap(complaintOf));
		await recordEngagement(trx, eventWriter, following.flatMap(engagedOf));
	}
}

function followsOf({verdict: {outcome}}: JudgedTry) {
	return outcome.kind === 'delivered' ? outcome.follows : undefined;
}

function complaintOf(recorded: JudgedTry): Complaint[] {
	const {recipient, result} = recorded;
	if (followsOf(recorded) !== 'complained') {
		return [];
	}
	return [
		{
			recipientId: recipient.id,
			workspaceId: recipient.workspace_id,
			messageId: recipient.message_id,
			address: recipient.address,
			addressKey: recipient.address_key,
			role: recipient.role,
			occurredAt: result.at,
			recordedAt: result.at,
			counted: isCounted(recipient.role, recipient.destination),
			suppresses: true,
			detail: {reason: 'simulated'},
		},
	];
}

function engagedOf(recorded: JudgedTry): Engaged[] {
	const {recipient, made, result} = recorded;
	const type = followsOf(recorded);
	const tracking = trackingOf(recipient);
	const isTracked = (type === 'opened' && tracking.opens) || (type === 'clicked' && tracking.clicks);
	if (!isTracked) {
		return [];
	}
	return [
		{
			recipient: {
				id: recipient.id,
				workspaceId: recipient.workspace_id,
				messageId: recipient.message_id,
				address: recipient.address,
				role: recipient.role,
				destination: recipient.destination,
			},
			type,
			url: type === 'clicked' ? (made?.firstLink ?? simulatedLink) : '',
			n: 1,
			machineN: 0,
			firstAt: result.at,
			lastAt: result.at,
			recordedAt: result.at,
			machine: false,
			userAgent: null,
		},
	];
}

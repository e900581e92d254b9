import type {Knex} from 'knex';
import type {Recipient} from '../mail/message.ts';
import type {AttemptResult, Outcome} from '../mail/outcome.ts';
import {insertEvents} from '../store/timeline.ts';
import {type CountedStatus, countUsage} from '../store/usage.ts';
import type {Subscriber} from '../store/webhooks.ts';
import {type AnnouncedEvent, addToOutbox, type EventWriter} from './outbox.ts';

const countedTypes: ReadonlySet<string> = new Set([
	'delivered',
	'bounced',
	'complained',
	'opened',
] satisfies CountedStatus[]);

/**
 * Writes new events of recipients into the timeline, the figures of usage, and the outbox of the webhooks. Every event
 * after the acceptance passes here.
 *
 * @param subscribers those of the workspaces, if they were read already
 */
export async function announce(
	trx: Knex.Transaction,
	events: readonly AnnouncedEvent[],
	eventWriter: EventWriter,
	subscribers?: readonly Subscriber[],
): Promise<void> {
	await insertEvents(trx, events);
	await addToOutbox(trx, events, eventWriter, subscribers);
	const counted = events.filter(one => one.counted && countedTypes.has(one.type));
	await countUsage(
		trx,
		counted.map(one => ({
			workspaceId: one.workspaceId,
			at: one.recordedAt,
			status: one.type as CountedStatus,
			n: 1,
		})),
	);
}

/** The detail of a try's end in the timeline: JSON text without absent fields. */
export function eventDetail(
	recipient: Pick<Recipient, 'address' | 'role'>,
	attempt: number,
	result: AttemptResult,
	outcome: Outcome,
	possibleDuplicate: boolean,
): string {
	const last = result.attempts.at(-1);
	return JSON.stringify({
		recipient: recipient.address,
		role: recipient.role,
		attempt,
		...(last && {
			host: last.host ?? undefined,
			ip: last.ip ?? undefined,
			tls: last.tls ?? undefined,
			code: last.code ?? undefined,
			enhanced: last.enhanced ?? undefined,
			reply: last.reply,
		}),
		...explanation(outcome),
		...(possibleDuplicate && {possible_duplicate: true}),
	});
}

function explanation(outcome: Outcome): Record<string, unknown> {
	switch (outcome.kind) {
		case 'bounced':
			return {
				type: outcome.type,
				category: outcome.category,
				reason: outcome.reason,
				...(outcome.category === 'expired' && {enhanced: '4.4.7'}),
				...(outcome.escalated && {escalated: outcome.escalated}),
			};
		case 'errored':
			return {reason: outcome.reason, ...(outcome.message !== undefined && {message: outcome.message})};
		case 'suppressed':
			return {reason: outcome.reason};
		default:
			return {};
	}
}

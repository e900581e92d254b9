import type {Knex} from 'knex';
import type {NewId} from '../mail/ids.ts';
import {type Recipient, type WebhookEventType, webhookEventTypes} from '../mail/message.ts';
import type {AttemptResult, Outcome} from '../mail/outcome.ts';
import {isListener, webhookBody} from '../mail/webhook.ts';
import {readMetadata, readTestMessages} from '../store/messages.ts';
import {insertEvents, type NewEvent} from '../store/timeline.ts';
import {type CountedStatus, countUsage} from '../store/usage.ts';
import {findSubscribers, insertDeliveries, type Subscriber} from '../store/webhooks.ts';

/** A timeline entry with its recipient. */
export type AnnouncedEvent = NewEvent & {
	readonly workspaceId: string;
	/** The address that the event is about, as the caller spelled it. */
	readonly recipient: string;
	/** Whether usage counts it: an event of the `to` recipient of real mail (`isCounted`). */
	readonly counted: boolean;
};

/** The destinations of events in addition to the timeline. */
export type EventWriter = {
	readonly newId: NewId;
	/** Called after the commit, with the endpoints for which something is due now. */
	readonly onDue: (endpointIds: readonly string[]) => void;
	/** Called after the commit, with the workspaces that have new reputation figures; absent: the daemon polls. */
	readonly onCounted?: (workspaceIds: readonly string[]) => void;
};

/** Adds a delivery for every endpoint that is subscribed to an event, in the event's transaction. */
async function addToOutbox(
	trx: Knex.Transaction,
	events: readonly AnnouncedEvent[],
	eventWriter: EventWriter,
	known?: readonly Subscriber[],
): Promise<void> {
	const carried = events.filter(isCarried);
	if (carried.length > 0) {
		const workspaceIds = [...new Set(carried.map(({workspaceId}) => workspaceId))];
		await fanOut(trx, carried, known ?? (await findSubscribers(trx, workspaceIds)), eventWriter);
	}
}

type Carried = AnnouncedEvent & {readonly type: WebhookEventType};

function isCarried(event: AnnouncedEvent): event is Carried {
	return (webhookEventTypes as readonly string[]).includes(event.type);
}

async function fanOut(
	trx: Knex.Transaction,
	events: readonly Carried[],
	subscribers: readonly Subscriber[],
	{newId, onDue}: EventWriter,
): Promise<void> {
	const ofTests = await findTests(trx, events, subscribers);
	const pairs = events.flatMap(event =>
		subscribers
			.filter(({workspaceId, events}) => workspaceId === event.workspaceId && events.includes(event.type))
			.filter(({mode}) => mode === 'live' || ofTests.has(event.messageId))
			.map(({id: endpointId, url}) => ({event, endpointId, isPosted: !isListener(url)})),
	);
	if (pairs.length === 0) {
		return;
	}
	const subscribed = [...new Set(pairs.map(({event}) => event))];
	const metadata = await readMetadata(
		trx,
		subscribed.map(({messageId}) => messageId),
	);
	const bodies = new Map(
		subscribed.map(one => [one.id, webhookBody({...one, metadata: metadata.get(one.messageId) ?? null})]),
	);
	await insertDeliveries(
		trx,
		pairs.map(({event, endpointId, isPosted}) => ({
			id: newId('whd'),
			workspaceId: event.workspaceId,
			endpointId,
			messageId: event.messageId,
			eventId: event.id,
			eventType: event.type,
			body: bodies.get(event.id) as string,
			dueAt: isPosted ? event.recordedAt : null,
			createdAt: event.recordedAt,
		})),
	);
	const due = [...new Set(pairs.map(({endpointId}) => endpointId))];
	void trx.executionPromise.then(
		() => onDue(due),
		() => undefined, // Rolled back: the caller of the transaction gets the error.
	);
}

/** The messages of test keys among them; not asked where no endpoint takes those alone. */
async function findTests(
	trx: Knex.Transaction,
	events: readonly Carried[],
	subscribers: readonly Subscriber[],
): Promise<ReadonlySet<string>> {
	const asking = new Set(subscribers.filter(({mode}) => mode === 'test').map(({workspaceId}) => workspaceId));
	const ids = events.filter(({workspaceId}) => asking.has(workspaceId)).map(({messageId}) => messageId);
	return ids.length === 0 ? new Set() : await readTestMessages(trx, ids);
}

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

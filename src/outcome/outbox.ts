import type {Knex} from 'knex';
import type {NewId} from '../mail/ids.ts';
import {type defaultWebhookEvents, type Recipient, type WebhookEventType, webhookEventTypes} from '../mail/message.ts';
import type {AttemptResult, Outcome} from '../mail/outcome.ts';
import {type DisabledReason, isListener, type WebhookEvent, webhookBody} from '../mail/webhook.ts';
import {type Endpoint, findSubscribers, insertDeliveries, type Subscriber} from '../resources/webhooks/store.ts';
import {bumpGeneration} from '../store/changes.ts';
import {readSubjects, readWebhookMessages} from '../store/messages.ts';
import {insertEvents, type NewEvent} from '../store/timeline.ts';
import {type CountedStatus, countUsage} from '../store/usage.ts';

/** A timeline entry with its recipient. */
export type AnnouncedEvent = NewEvent & {
	readonly workspaceId: string;
	/** The address that the event is about, as the caller spelled it. */
	readonly recipient: string;
	/** Whether usage counts it: an event of the `to` recipient of real mail (`isCounted`). */
	readonly isCounted: boolean;
	/** For a bounce, whether it suppresses the recipient. */
	readonly suppressed?: boolean;
};

/** Returns the fields that identify an event's recipient. */
export function ofRecipient(recipient: Pick<Recipient, 'id' | 'workspace_id' | 'message_id' | 'address'>) {
	const {id: recipientId, workspace_id: workspaceId, message_id: messageId, address} = recipient;
	return {workspaceId, messageId, recipientId, recipient: address};
}

/** Where events go besides the timeline. */
export type EventWriter = {
	readonly newId: NewId;
	/** Called after the commit with the endpoints for which something is due. */
	readonly onDue: (endpointIds: readonly string[]) => void;
	/** Called after the commit with the workspaces that have new reputation figures. If absent, the daemon polls. */
	readonly onCounted?: (workspaceIds: readonly string[]) => void;
};

/** An event for endpoints that is not in any timeline. */
export type Notice = Omit<WebhookEvent, 'id' | 'type' | 'occurredAt'> & {
	readonly type: Exclude<WebhookEventType, (typeof defaultWebhookEvents)[number]>;
	/** When it happened, in the store's format. */
	readonly at: string;
	/** Whether endpoints of test keys get it too although it is about no message. */
	readonly isTest?: boolean;
	/** The id of the received mail it is about. Removing that mail also removes its deliveries. Absent for messages. */
	readonly receivedId?: string;
};

/** Returns the notice that an endpoint was disabled. It omits the path of the URL, which may contain a secret. */
export function disabledNotice(
	{id, workspaceId, mode, url}: Pick<Endpoint, 'id' | 'workspaceId' | 'mode' | 'url'>,
	{at, reason}: {readonly at: string; readonly reason: DisabledReason | 'by_hand'},
): Notice {
	const common = {workspaceId, messageId: null, recipient: null, isTest: mode === 'test'};
	return {type: 'endpoint_disabled', ...common, at, detail: {endpoint: id, host: new URL(url).host, reason}};
}

/** Processes without a dispatcher omit `onDue`. Daemons then notice due deliveries as they notice any other change. */
export type Notifier = Pick<EventWriter, 'newId'> & Partial<Pick<EventWriter, 'onDue'>>;

/**
 * Adds deliveries for every subscribed endpoint, in the transaction of the changes that they report.
 *
 * @param subscribers the subscribers of the workspaces, if they were read already
 */
export async function notify(
	trx: Knex.Transaction,
	notices: readonly Notice[],
	notifier: Notifier,
	subscribers?: readonly Subscriber[],
): Promise<void> {
	const posted = notices.map(({at, ...notice}) => ({
		...notice,
		id: notifier.newId('evt'),
		occurredAt: at,
		recordedAt: at,
	}));
	await fanOut(trx, posted, notifier, subscribers);
}

type Posted = WebhookEvent & Pick<Notice, 'isTest' | 'receivedId'> & Pick<AnnouncedEvent, 'recordedAt'>;

/** Returns what endpoints get for a timeline event. A bounce after the last attempt becomes two events. */
function toPosted({newId}: Notifier, {detail: text, ...event}: AnnouncedEvent): Posted[] {
	const type = webhookEventTypes.find(name => name === event.type);
	if (type === undefined) {
		return [];
	}
	const detail = text === null ? {} : JSON.parse(text);
	const posted = {...event, type, detail};
	return type === 'bounced' && isGiveUp(detail) ? [posted, {...posted, id: newId('evt'), type: 'gave_up'}] : [posted];
}

/** Whether a temporary failure was retried until the time was up, by us or by a relay. */
function isGiveUp({type, escalated, category, code, enhanced}: Readonly<Record<string, unknown>>): boolean {
	const isSoft = type === 'transient' || escalated !== undefined;
	return isSoft && (category === 'expired' || String(code).startsWith('4') || String(enhanced).startsWith('4.'));
}

async function fanOut(
	trx: Knex.Transaction,
	events: readonly Posted[],
	{newId, onDue}: Notifier,
	known?: readonly Subscriber[],
): Promise<void> {
	if (events.length === 0) {
		return;
	}
	const subscribers = known ?? (await findSubscribers(trx, [...new Set(events.map(({workspaceId}) => workspaceId))]));
	const candidates = events.flatMap(event =>
		subscribers
			.filter(({workspaceId, events}) => workspaceId === event.workspaceId && events.includes(event.type))
			.map(subscriber => ({event, subscriber})),
	);
	if (candidates.length === 0) {
		return;
	}
	const messages = await readWebhookMessages(trx, messageIdsOf(candidates));
	const isTestEvent = ({messageId, isTest}: Posted) =>
		messageId === null ? isTest === true : messages.get(messageId)?.mode === 'test';
	const pairs = candidates.filter(({event, subscriber}) => subscriber.mode === 'live' || isTestEvent(event));
	if (pairs.length === 0) {
		return;
	}
	const full = pairs.filter(({subscriber}) => subscriber.format === 'full');
	const subjects = full.length === 0 ? new Map<string, string>() : await readSubjects(trx, messageIdsOf(full));
	await insertDeliveries(
		trx,
		pairs.map(({event, subscriber}) => {
			const message = messages.get(event.messageId ?? '');
			const described = message && {...message, subject: subjects.get(message.id) ?? null};
			return {
				id: newId('whd'),
				workspaceId: event.workspaceId,
				endpointId: subscriber.id,
				messageId: event.receivedId ?? message?.id ?? null,
				eventId: event.id,
				eventType: event.type,
				body: webhookBody(event, described, subscriber.format ?? 'default'),
				dueAt: isListener(subscriber.url) ? null : event.recordedAt,
				createdAt: event.recordedAt,
			};
		}),
	);
	if (onDue === undefined) {
		await bumpGeneration(trx);
		return;
	}
	const due = [...new Set(pairs.map(({subscriber}) => subscriber.id))];
	void trx.executionPromise.then(
		() => onDue(due),
		() => undefined, // Rolled back: the caller of the transaction gets the error.
	);
}

const messageIdsOf = (pairs: ReadonlyArray<{readonly event: Posted}>): string[] =>
	pairs.flatMap(({event}) => event.messageId ?? []);

const countedTypes = new Set<string>(['delivered', 'bounced', 'complained', 'opened'] satisfies CountedStatus[]);

/**
 * Writes new events to the timeline, the usage figures and the webhook outbox. Every event after acceptance passes
 * through here.
 *
 * @param subscribers the subscribers of the workspaces, if they were read already
 */
export async function announce(
	trx: Knex.Transaction,
	events: readonly AnnouncedEvent[],
	eventWriter: Notifier,
	subscribers?: readonly Subscriber[],
): Promise<void> {
	await insertEvents(trx, events);
	// Most workspaces have no endpoint, so their events need not be parsed.
	const subscribedIds = subscribers && new Set(subscribers.map(({workspaceId}) => workspaceId));
	const posted = events.flatMap(event =>
		subscribedIds?.has(event.workspaceId) === false ? [] : toPosted(eventWriter, event),
	);
	await fanOut(trx, posted, eventWriter, subscribers);
	await countUsage(trx, events.flatMap(toUsage));
}

function toUsage({isCounted, type, workspaceId, recordedAt: at}: AnnouncedEvent) {
	return isCounted && countedTypes.has(type) ? [{workspaceId, at, status: type as CountedStatus, n: 1}] : [];
}

/** Returns the timeline detail for the end of an attempt as JSON text without absent fields. */
export function eventDetail(
	recipient: Pick<Recipient, 'address' | 'role'>,
	attempt: number,
	result: AttemptResult,
	outcome: Outcome,
	mayBeDuplicate: boolean,
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
		...outcomeDetail(outcome),
		...(mayBeDuplicate && {possible_duplicate: true}),
	});
}

function outcomeDetail(outcome: Outcome): Record<string, unknown> {
	switch (outcome.kind) {
		case 'bounced':
			return {
				type: outcome.type,
				category: outcome.category,
				reason: outcome.reason,
				...(outcome.category === 'expired' && {enhanced: '4.4.7'}),
				...(outcome.escalated && {escalated: outcome.escalated}),
			};
		case 'deferred':
			return {type: 'transient', category: outcome.category, reason: outcome.reason};
		case 'errored':
			return {reason: outcome.reason, ...(outcome.message !== undefined && {message: outcome.message})};
		case 'suppressed':
			return {reason: outcome.reason};
		default:
			return {};
	}
}

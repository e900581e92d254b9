import type {Knex} from 'knex';
import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import type {WebhookEventType} from '../../src/mail/message.ts';
import {WebhookDispatcher} from '../../src/resources/webhooks/dispatch.ts';
import type {PostResult} from '../../src/resources/webhooks/post.ts';
import {type ClaimedDelivery, deliveryClaims, readEndpointWork} from '../../src/resources/webhooks/queue-store.ts';
import {insertDeliveries} from '../../src/resources/webhooks/store.ts';
import type {FinishedAttempt} from '../../src/resources/webhooks/turn.ts';
import {releaseUnknown} from '../../src/store/held-claims.ts';
import type {Store} from '../../src/store/store.ts';
import {newId} from './messages.ts';

/** An endpoint as a raw row; its secret is not sealed. */
export async function insertEndpoint(
	store: Store,
	workspaceId: string,
	{
		events = ['delivered'],
		...more
	}: {
		events?: readonly WebhookEventType[];
		disabled_at?: string;
		mode?: 'test';
		previous_secret?: string;
		previous_until?: string;
		url?: string;
		format?: 'full';
		retry?: 'long';
	} = {},
): Promise<string> {
	const id = newId('whe');
	await store.writer.transaction(trx =>
		trx('webhook_endpoints').insert({
			id,
			workspace_id: workspaceId,
			url: `https://shop.example/${id}`,
			events: JSON.stringify(events),
			secret: 'sealed',
			created_at: storeTime(Date.now()),
			...more,
		}),
	);
	return id;
}

/** Deliveries that are due, of messages that need not exist; answers their ids in order. */
export async function insertDue(store: Store, workspaceId: string, endpointId: string, n: number): Promise<string[]> {
	const at = storeTime(Date.now());
	const rows = Array.from({length: n}, () => ({
		id: newId('whd'),
		workspaceId,
		endpointId,
		messageId: newId('msg'),
		eventId: newId('evt'),
		eventType: 'delivered' as const,
		body: '{"type":"delivered"}',
		dueAt: at,
		createdAt: at,
	}));
	await store.writer.transaction(trx => insertDeliveries(trx, rows));
	return rows.map(({id}) => id);
}

export type DeliveryRow = {
	readonly id: string;
	readonly state: string;
	readonly attempts: number;
	readonly generation: number;
	readonly claimed_by: string | null;
	readonly next_attempt_at: string | null;
	readonly last_attempt_at: string | null;
};

/** Deliveries with what the queue says of them. */
export function deliveryRows(connection: Knex): Knex.QueryBuilder {
	return connection.from(
		connection.raw(`(select d.*, q.next_attempt_at, q.claimed_by from webhook_deliveries as d
			left join webhook_queue as q on q.delivery_id = d.id) as deliveries`),
	);
}

export async function rowOf(store: Store, id: string): Promise<DeliveryRow> {
	return await deliveryRows(store.reader).where({id}).first();
}

export async function statesOf(store: Store): Promise<Record<string, number>> {
	const rows: Array<{state: string; n: number}> = await store
		.reader('webhook_deliveries')
		.select('state')
		.count('* as n')
		.groupBy('state');
	return Object.fromEntries(rows.map(({state, n}) => [state, Number(n)]));
}

export const acknowledged: PostResult = {
	status: 200,
	error: null,
	detail: null,
	answer: null,
	address: '127.0.0.1',
	tls: 'TLSv1.3',
	ms: 1,
};
export const refused: PostResult = {...acknowledged, status: 503, error: 'the server responded with 503'};

export type Post = (delivery: ClaimedDelivery) => Promise<PostResult | null>;

/** A dispatcher on a real store whose attempts end as the given function says. */
export function dispatcherOf(
	store: Store,
	post: Post,
	more: Partial<ConstructorParameters<typeof WebhookDispatcher>[0]> = {},
): {dispatcher: WebhookDispatcher; attempted: FinishedAttempt[]; boot: string} {
	const boot = newId('req');
	const attempted: FinishedAttempt[] = [];
	const dispatcher = new WebhookDispatcher({
		perEndpoint: 4,
		total: 256,
		writer: store.writer,
		eventWriter: {newId, onDue: () => undefined},
		boot,
		readWork: () => readEndpointWork(store.reader),
		releaseUnknown: known =>
			store.writer.transaction(trx => releaseUnknown(trx, deliveryClaims, boot, known(), storeTime(Date.now()))),
		post,
		backoffMs: 20,
		clock: systemClock,
		observer: {
			posted: one => attempted.push(one),
			webhookProblem(error) {
				throw error;
			},
		},
		onStoreError(error) {
			throw error;
		},
		...more,
	});
	return {dispatcher, attempted, boot};
}

/** Attempts that end when the test says so. */
export function heldPosts(): {
	readonly post: Post;
	readonly held: Array<{readonly delivery: ClaimedDelivery; readonly end: (end: PostResult) => void}>;
} {
	const held: Array<{delivery: ClaimedDelivery; end: (end: PostResult) => void}> = [];
	return {held, post: delivery => new Promise(resolve => held.push({delivery, end: resolve}))};
}

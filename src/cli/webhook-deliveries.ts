import type {Command} from 'commander';
import {replay, replaySince} from '../admin/webhooks.ts';
import {deliveryView} from '../api/views.ts';
import {type WebhookEventType, webhookEventTypes} from '../mail/event.ts';
import {type DeliveryState, deliveryStates, isListener, mostEndpoints} from '../mail/webhook.ts';
import {
	type Endpoint,
	findDelivery,
	findEndpoint,
	listDeliveries,
	listEndpoints,
	listPosts,
	type StoredDelivery,
	type StoredPost,
} from '../store/webhooks.ts';
import {CliError} from './fault.ts';
import {count, oneOf, past} from './options.ts';
import {verb} from './program.ts';
import {action, type Session} from './session.ts';
import {createProgress} from './terminal.ts';
import {grouped, type Noun, shortTime, table} from './text.ts';

type Options = {status?: DeliveryState; limit: number};

export function deliveriesVerb(webhook: Command): void {
	verb(
		webhook,
		'deliveries <id>',
		'List deliveries of an endpoint, newest first, or show one (whd_…) with its attempts',
		'mailctl webhook deliveries whe_06f… --status exhausted',
	)
		.option('--status <status>', deliveryStates.join(', '), deliveryState)
		.option('--limit <n>', 'at most this many', count('--limit', 1, 10_000), 25)
		.action(
			action<Options, [string]>(async (session, {status, limit}, id) => {
				if (id.startsWith('whd_')) {
					await showDelivery(session, await chosenDelivery(session, id));
					return;
				}
				const endpoint = await chosenEndpoint(session, id);
				const page = {after: null, limit, state: status};
				const rows = await listDeliveries(await session.reader(), endpoint.id, page);
				session.list(deliveries, rows);
			}),
		);
}

/** Throws bad data (65) where the workspace has no such delivery. */
async function chosenDelivery(session: Session, text: string): Promise<StoredDelivery> {
	const id = await session.idOf('whd', text);
	const {id: workspaceId} = await session.workspace();
	const found = id === undefined ? undefined : await findDelivery(await session.reader(), workspaceId, id);
	if (!found) {
		throw new CliError('data', `there is no delivery ${text}`, 'see mailctl webhook deliveries ENDPOINT');
	}
	return found;
}

const deliveries: Noun<StoredDelivery> = {
	none: 'no deliveries: nothing was posted to this endpoint yet',
	json: deliveryView,
	fields: [
		{title: 'ID', name: 'id', cell: row => row.id, id: true},
		{title: 'UTC', cell: row => shortTime(row.createdAt).slice(5, 16)},
		{name: 'endpoint', cell: row => row.endpointId},
		{name: 'message', cell: row => row.messageId},
		{title: 'EVENT', name: 'event', cell: row => row.eventType},
		{title: 'STATUS', name: 'status', cell: row => row.state},
		{title: 'N', cell: row => row.attempts, right: true},
		{title: 'LAST', cell: lastOf, cut: true},
		{name: 'created', cell: row => shortTime(row.createdAt)},
		{name: 'next attempt', cell: row => shortTime(row.nextAttemptAt)},
		{name: 'body', cell: row => Buffer.from(row.body).toString()},
	],
};

// In one word: the status, or the code that its sentence ends with.
function lastOf({lastError, lastStatus}: StoredDelivery): string | number | null {
	return lastStatus ?? /\((\w+)\)$/.exec(lastError ?? '')?.[1] ?? lastError;
}

async function showDelivery(session: Session, delivery: StoredDelivery): Promise<void> {
	const posts = await listPosts(await session.reader(), delivery.id);
	const lines = table<StoredPost>(
		[
			{title: 'UTC', cell: post => shortTime(post.at)},
			{title: 'N', cell: post => post.n, right: true},
			{title: 'MS', cell: post => post.ms, right: true},
			{title: 'WHAT CAME BACK', cell: post => post.error ?? `it answered ${post.status}`},
		],
		posts,
		session.terminal.width,
	);
	session.one(deliveries, delivery, {json: {attempt_log: posts}, lines: ['', ...lines]});
}

type ReplayOptions = {since?: number; event?: WebhookEventType; endpoint?: string; status?: DeliveryState};

export function replayVerb(webhook: Command): void {
	verb(
		webhook,
		'replay [id]',
		'Post a delivery again, or all since a time',
		'mailctl webhook replay --since 4h --endpoint whe_06f… --status exhausted',
	)
		.option('--since <time>', 'all whose event came then or later: a time, or a duration before now', past('--since'))
		.option('--event <event>', `only of this type: ${webhookEventTypes.join(', ')}`, webhookEvent)
		.option('--endpoint <id>', 'only of this endpoint')
		.option('--status <status>', `only those that are ${deliveryStates.join(', ')}`, deliveryState)
		.action(
			action<ReplayOptions, [string | undefined]>(async (session, options, id) => {
				if ((id === undefined) === (options.since === undefined)) {
					throw new CliError('usage', 'name either one delivery or --since', 'see mailctl webhook replay --help');
				}
				if (id === undefined) {
					await replayAll(session, options.since ?? 0, options);
				} else {
					await replayOne(session, id);
				}
			}),
		);
}

async function replayOne(session: Session, text: string): Promise<void> {
	const {id} = await chosenDelivery(session, text);
	const {id: workspaceId} = await session.workspace();
	const replayed = await session.write(trx => replay(trx, session.tools, workspaceId, id));
	if (replayed) {
		session.show(deliveryView(replayed), () => [`${id} is due now`]);
	}
}

async function replayAll(session: Session, since: number, {event, endpoint, status}: ReplayOptions): Promise<void> {
	const chosen = endpoint === undefined ? undefined : await chosenEndpoint(session, endpoint);
	const {id: workspaceId} = await session.workspace();
	const all = await listEndpoints(await session.reader(), workspaceId, {after: null, limit: mostEndpoints});
	const endpoints = chosen ? [chosen] : all.filter(({url}) => !isListener(url));
	const progress = createProgress(session.terminal, session.tools.clock, 'deliveries');
	const filter = {workspaceId, since, eventType: event, state: status};
	const replayed = await replaySince(
		session.write,
		session.tools,
		{...filter, endpointIds: endpoints.map(({id}) => id), target: chosen?.id ?? null},
		done => progress.show(done, null),
	);
	progress.end();
	session.show({replayed}, () => [`${grouped(replayed)} deliveries are due now`]);
}

/** Throws bad data (65) where the workspace has no such endpoint. */
export async function chosenEndpoint(session: Session, text: string): Promise<Endpoint> {
	const id = (await session.idOf('whe', text)) ?? missingEndpoint(text);
	const {id: workspaceId} = await session.workspace();
	return (await findEndpoint(await session.reader(), workspaceId, id)) ?? missingEndpoint(text);
}

export function missingEndpoint(id: string): never {
	throw new CliError('data', `there is no endpoint ${id}`, 'see mailctl webhook list');
}

/** Throws a usage error (64). */
const webhookEvent = oneOf('--event', webhookEventTypes);

/** Given several times, with commas, or both. */
export function webhookEvents(text: string, previous: readonly WebhookEventType[] = []): WebhookEventType[] {
	return [...previous, ...text.split(',').map(webhookEvent)];
}
webhookEvents.choices = webhookEventTypes;

const deliveryState = oneOf('--status', deliveryStates);

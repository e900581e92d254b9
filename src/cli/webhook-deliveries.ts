import type {Command} from 'commander';
import {deliveryView} from '../api/views.ts';
import {isId} from '../mail/ids.ts';
import {type DeliveryState, deliveryStates} from '../mail/webhook.ts';
import {
	findDelivery,
	listDeliveries,
	listPosts,
	type StoredDelivery,
	type StoredPost,
} from '../store/webhook-deliveries.ts';
import {chosenEndpoint, deliveryState} from './endpoint.ts';
import {CliError} from './fault.ts';
import {count} from './options.ts';
import {verb} from './program.ts';
import {action, type Session} from './session.ts';
import {type Noun, table} from './table.ts';
import {shortTime} from './text.ts';

type Options = {status?: DeliveryState; limit: number};

export function deliveriesVerb(webhook: Command): void {
	verb(
		webhook,
		'deliveries <id>',
		'List deliveries of an endpoint, newest first, or show one (whd_…) with its attempts',
		'mailctl webhook deliveries whe_06f… --status exhausted',
	)
		.option('--status <status>', deliveryStates.join(', '), deliveryState)
		.option('--limit <n>', 'at most so many', count('--limit', 1, 10_000), 25)
		.action(
			action<Options, [string]>(async (session, {status, limit}, id) => {
				if (isId('whd', id)) {
					await showDelivery(session, await chosenDelivery(session, id));
					return;
				}
				await chosenEndpoint(session, id);
				const page = {after: null, limit, state: status};
				const rows = await listDeliveries(await session.reader(), id, page);
				session.list(deliveries, rows);
			}),
		);
}

/** Throws bad data (65) where the workspace has no such delivery. */
export async function chosenDelivery(session: Session, id: string): Promise<StoredDelivery> {
	const {id: workspaceId} = await session.workspace();
	const found = isId('whd', id) ? await findDelivery(await session.reader(), workspaceId, id) : undefined;
	if (!found) {
		throw new CliError('data', `there is no delivery ${id}`, 'see mailctl webhook deliveries ENDPOINT');
	}
	return found;
}

const deliveries: Noun<StoredDelivery> = {
	json: deliveryView,
	fields: [
		{title: 'ID', name: 'id', cell: row => row.id},
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

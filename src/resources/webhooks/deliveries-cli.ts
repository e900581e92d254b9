import {CliError} from '../../cli/fault.ts';
import {addFieldOptions, readFieldOptions} from '../../cli/field-options.ts';
import {count, oneOf, past} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {grouped, type Noun, shortTime, table} from '../../cli/terminal-text.ts';
import {type DeliveryState, deliveryStates} from '../../mail/webhook.ts';
import {listFields} from '../fields.ts';
import type {InputOf} from '../operation.ts';
import {deliveryView} from '../views.ts';
import {listPosts, type StoredPost} from './queue-store.ts';
import {deliveryNotFound, endpointNotFound, replay, replaySince} from './rules.ts';
import {type Endpoint, findDelivery, findEndpoint, listDeliveries, type StoredDelivery} from './store.ts';

export function deliveriesVerb(webhook: CliCommand): void {
	webhook
		.verb(
			'deliveries <id>',
			'List the deliveries of an endpoint, newest first, or show one (whd_…) with its attempts',
		)
		.sample('mailctl webhook deliveries whe_06f… --status exhausted')
		.option('--status <status>', deliveryStates.join(', '), oneOf('--status', deliveryStates))
		.option('--limit <n>', 'at most this many', count('--limit', 1, 10_000), 25)
		.does<{status?: DeliveryState; limit: number}, [string]>(async (session, {status, limit}, id) => {
			if (id.startsWith('whd_')) {
				await showDelivery(session, await chosenDelivery(session, id));
				return;
			}
			const endpoint = await chosenEndpoint(session, id);
			const page = {after: null, limit, state: status};
			const rows = await listDeliveries(await session.reader(), endpoint.id, page);
			const none = status === undefined ? deliveries.none : `no delivery to this endpoint is ${status}`;
			session.list({...deliveries, none}, rows);
		});
}

/** Finds a delivery. Throws `Refused` if the workspace does not have it. */
async function chosenDelivery(session: Session, text: string): Promise<StoredDelivery> {
	const id = (await session.idOf('whd', text)) ?? deliveryNotFound(text);
	const {reader, workspaceId} = await session.inWorkspace();
	return (await findDelivery(reader, workspaceId, id)) ?? deliveryNotFound(text);
}

const deliveries: Noun<StoredDelivery> = {
	none: 'no deliveries: nothing has been posted to this endpoint yet',
	json: deliveryView,
	fields: [
		{title: 'ID', name: 'id', cell: row => row.id, id: true},
		{title: 'UTC', cell: row => shortTime(row.createdAt).slice(5, 16)},
		{name: 'endpoint', cell: row => row.endpointId},
		{name: 'message', cell: row => row.messageId},
		{title: 'EVENT', name: 'event', cell: row => row.eventType},
		{title: 'STATUS', name: 'status', cell: row => row.state},
		{title: 'N', cell: row => row.attempts, right: true},
		{title: 'LAST', cell: lastResult, cut: true},
		{name: 'created', cell: row => shortTime(row.createdAt)},
		{name: 'next attempt', cell: row => shortTime(row.nextAttemptAt)},
		{name: 'body', cell: row => Buffer.from(row.body).toString()},
	],
};

// Summarizes the last post in one word: the status, or the code at the end of its error.
function lastResult({lastError, lastStatus}: StoredDelivery): string | number | null {
	return lastStatus ?? /\((\w+)\)$/.exec(lastError ?? '')?.[1] ?? lastError;
}

async function showDelivery(session: Session, delivery: StoredDelivery): Promise<void> {
	const posts = await listPosts(await session.reader(), delivery.id);
	const lines = table<StoredPost>(
		[
			{title: 'UTC', cell: post => shortTime(post.at)},
			{title: 'N', cell: post => post.n, right: true},
			{title: 'MS', cell: post => post.ms, right: true},
			{title: 'RESPONSE', cell: post => post.error ?? `the server responded with ${post.status}`},
		],
		posts,
		session.terminal.width,
	);
	session.printRow(deliveries, delivery, {json: {attempt_log: posts}, lines: ['', ...lines]});
}

type ReplayInput = InputOf<typeof replaySince.input>;

/** `--since` is required only without an id. */
const replayFields = listFields(replaySince.input).map(field => ({...field, isRequired: false}));

export function replayVerb(webhook: CliCommand): void {
	const verb = webhook
		.verb('replay [id]', 'Post a delivery again, or all deliveries since a time')
		.sample('mailctl webhook replay --since 4h --endpoint whe_06f… --status exhausted');
	addFieldOptions(verb, replayFields, {since: past('--since')}).does<object, [string | undefined]>(
		async (session, options, id) => {
			const {since, ...filter} = readFieldOptions<Partial<ReplayInput>>(replayFields, options);
			if (id !== undefined && since === undefined) {
				await replayOne(session, id);
			} else if (id === undefined && since !== undefined) {
				await replayAll(session, {...filter, since});
			} else {
				const fix = 'see mailctl webhook replay --help';
				throw new CliError('usage', 'exactly one of an id and --since is required', fix);
			}
		},
	);
}

async function replayOne(session: Session, text: string): Promise<void> {
	const id = (await session.idOf('whd', text)) ?? text;
	const replayed = await session.perform(replay, {id});
	session.show(deliveryView(replayed), () => [`${id} is due now`]);
}

async function replayAll(session: Session, {endpoint: text, ...filter}: ReplayInput): Promise<void> {
	const endpoint = text && ((await session.idOf('whe', text)) ?? text);
	const progress = session.progress('deliveries');
	const input = {...filter, ...(endpoint !== undefined && {endpoint})};
	const replayed = await session.perform(replaySince, input, done => progress.show(done, null));
	progress.end();
	session.show({replayed}, () => [`${grouped(replayed)} deliveries are due now`]);
}

/** Finds an endpoint. Throws `Refused` if the workspace does not have it. */
export async function chosenEndpoint(session: Session, text: string): Promise<Endpoint> {
	const id = (await session.idOf('whe', text)) ?? endpointNotFound(text);
	const {reader, workspaceId} = await session.inWorkspace();
	return (await findEndpoint(reader, workspaceId, id)) ?? endpointNotFound(text);
}

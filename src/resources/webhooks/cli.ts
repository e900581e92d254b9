import {setTimeout as sleep} from 'node:timers/promises';
import {CliError} from '../../cli/fault.ts';
import {readSecret} from '../../cli/files.ts';
import {count, duration, oneOf, past} from '../../cli/options.ts';
import {type CliCommand, version} from '../../cli/program.ts';
import {readDaemons, type Session} from '../../cli/session.ts';
import {fields, grouped, type Noun, shortTime, table} from '../../cli/terminal-text.ts';
import {postExample} from '../../daemon/webhook-posting.ts';
import {storeTime} from '../../kit/time.ts';
import {defaultWebhookEvents, type WebhookEventType, webhookEventTypes} from '../../mail/message.ts';
import {
	type DeliveryState,
	defaultOverlap,
	deliveryStates,
	isListener,
	listenerUrl,
	maxEndpoints,
	maxOverlap,
	type WebhookFormat,
	type WebhookRetry,
	webhookFormats,
	webhookRetries,
} from '../../mail/webhook.ts';
import {deliveryView, endpointView} from '../views.ts';
import {AddressGuard, toGuard} from './address-guard.ts';
import {toProblem} from './connections.ts';
import {type PostEnd, postHeaders} from './post.ts';
import {listPosts, type StoredPost} from './queue-store.ts';
import {
	addEndpoint,
	removeEndpoint,
	replay,
	replaySince,
	rotateSecret,
	setEndpointActive,
	signingSecret,
} from './rules.ts';
import {
	deleteDeliveries,
	type Endpoint,
	endpointState,
	findDelivery,
	findEndpoint,
	findWaiting,
	listDeliveries,
	listEndpoints,
	type StoredDelivery,
} from './store.ts';

type AddOptions = {event: WebhookEventType[]; format?: WebhookFormat; retry?: WebhookRetry};

export function webhookCommands(webhook: CliCommand): void {
	webhook
		.verb('add <url>', 'Register an endpoint and show its signing secret; - reads the URL from standard input')
		.sample('mailctl webhook add https://shop.example/hooks --event delivered --event bounced')
		.requiredOption(
			'--event <event>',
			`${webhookEventTypes.join(', ')}; repeatable, or separated by commas`,
			webhookEvents,
		)
		.option('--format <format>', 'full: bodies have more than the five default fields', webhookFormat)
		.option('--retry <retry>', 'long: for three days, then disable the endpoint; default: five times', webhookRetry)
		.does<AddOptions, [string]>(async (session, {event, ...forms}, argument) => {
			const url = await readSecret(argument);
			const {id: workspaceId} = await session.workspace();
			const problem = new AddressGuard(toGuard(session.settings())).urlProblem(url);
			if (problem !== null) {
				throw new CliError('data', `${url} is not allowed as a webhook URL`, `it ${problem}`);
			}
			const vault = await session.vault();
			const input = {workspaceId, mode: 'live' as const, url, events: [...new Set(event)], ...forms};
			const added = await session.write(trx => addEndpoint(trx, session.tools, vault, input));
			if (!added) {
				throw new CliError('data', `the workspace has ${maxEndpoints} endpoints`, 'remove one first');
			}
			await showEndpoint(session, added);
		});

	webhook
		.verb('list', 'List endpoints, newest first')
		.sample('mailctl webhook list')
		.does(async session => {
			const {reader, workspaceId} = await session.inWorkspace();
			const rows = await listEndpoints(reader, workspaceId, {after: null, limit: maxEndpoints});
			session.list(await endpoints(session), rows);
		});

	webhook
		.verb('show <id>', 'Show an endpoint with its signing secret')
		.sample('mailctl webhook show whe_06f…')
		.does<object, [string]>(async (session, _options, id) => {
			await showEndpoint(session, await chosenEndpoint(session, id));
		});

	webhook
		.verb('remove <id>', 'Remove an endpoint and its deliveries')
		.sample('mailctl webhook remove whe_06f… --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(async (session, {yes}, text) => {
			const endpoint = await chosenEndpoint(session, text);
			const {id} = endpoint;
			await session.confirm(`Remove the endpoint ${endpoint.url} and all its deliveries?`, yes);
			await session.write(trx => removeEndpoint(trx, session.tools, endpoint.workspaceId, id));
			session.show({id, removed: true}, () => [`removed ${id}`]);
		});

	for (const [change, about] of [
		['enable', 'Enable an endpoint; waiting events are posted'],
		['disable', 'Disable an endpoint; waiting events are retained'],
	] as const) {
		webhook
			.verb(`${change} <id>`, about)
			.sample(`mailctl webhook ${change} whe_06f…`)
			.does<object, [string]>(async (session, _options, text) => {
				const {id, workspaceId} = await chosenEndpoint(session, text);
				const changed = await session.write(trx =>
					setEndpointActive(trx, session.tools, workspaceId, id, change === 'enable'),
				);
				await showEndpoint(session, changed ?? missingEndpoint(id));
			});
	}

	webhook
		.verb('rotate <id>', 'Replace the signing secret of an endpoint; the old one also signs for a while')
		.sample('mailctl webhook rotate whe_06f… --overlap 24h')
		.option(
			'--overlap <duration>',
			'how long the old secret stays valid, at most 30d; 0 revokes it now; default 24h',
			overlap,
		)
		.does<{overlap?: number}, [string]>(async (session, {overlap = defaultOverlap}, text) => {
			const {id, workspaceId} = await chosenEndpoint(session, text);
			const vault = await session.vault();
			const input = {workspaceId, id, overlap};
			const rotated = await session.write(trx => rotateSecret(trx, session.tools, vault, input));
			await showEndpoint(session, rotated ?? missingEndpoint(id));
		});

	deliveriesVerb(webhook);
	replayVerb(webhook);
	testVerb(webhook);
	listenVerb(webhook);
}

function overlap(text: string): number {
	const milliseconds = duration('--overlap')(text);
	if (milliseconds > maxOverlap) {
		throw new CliError('usage', `--overlap "${text}" is not allowed`, 'use at most 30d');
	}
	return milliseconds;
}

/** Returns the noun for endpoints, with their current secrets. */
async function endpoints(session: Session): Promise<Noun<Endpoint>> {
	const vault = await session.vault();
	const now = storeTime(session.tools.clock.now());
	const json = (row: Endpoint) => endpointView(row, signingSecret(vault, row), now);
	return {
		none: 'no endpoints; add one with mailctl webhook add',
		json,
		fields: [
			{title: 'ID', name: 'id', cell: row => row.id, id: true},
			{name: 'url', cell: row => row.url},
			{name: 'events', cell: row => row.events.join(' ')},
			{
				title: 'STATE',
				name: 'state',
				cell: row => (json(row).signing_secret === null ? 'secret damaged' : endpointState(row)),
				cut: true,
			},
			{title: 'EVENTS', cell: row => row.events.join(' '), cut: true},
			{title: 'URL', cell: row => row.url, cut: true},
			{name: 'format', cell: row => row.format ?? undefined},
			{name: 'retry', cell: row => row.retry ?? undefined},
			{name: 'disabled because', cell: row => row.disabledReason ?? undefined},
			{name: 'failing since', cell: row => (row.failingSince === null ? undefined : shortTime(row.failingSince))},
			{
				name: 'signing secret',
				cell: row => json(row).signing_secret ?? `damaged; replace it with mailctl webhook rotate ${row.id}`,
			},
			{name: 'old secret until', cell: row => untilOf(json(row).previous_secret_expires_at)},
			{name: 'created', cell: row => shortTime(row.createdAt)},
		],
	};
}

const untilOf = (time: string | null) => (time === null ? undefined : `${shortTime(time)} UTC`);

async function showEndpoint(session: Session, endpoint: Endpoint): Promise<void> {
	session.one(await endpoints(session), endpoint);
}

export function testVerb(webhook: CliCommand): void {
	webhook
		.verb('test <id>', 'Post a signed example event now and show the response; nothing is stored')
		.sample('mailctl webhook test whe_06f…')
		.does<object, [string]>(async (session, _options, id) => {
			const endpoint = await chosenEndpoint(session, id);
			const parts = {
				settings: session.settings(),
				version: version(),
				vault: await session.vault(),
				...session.tools,
			};
			const end = await postExample(parts, endpoint);
			session.show(
				{acknowledged: end.error === null, ...end, retryAfterMs: undefined, ms: Math.round(end.ms)},
				() =>
					fields([
						['response', end.status ?? 'none'],
						['took', `${Math.round(end.ms)} ms`],
						['address', end.address],
						['tls', end.tls],
						...(end.detail === null ? [] : ([['detail', end.detail]] as const)),
					]),
			);
			if (end.error !== null) {
				throw new CliError('unavailable', `${endpoint.url} did not acknowledge it: ${end.error}`, mendOf(end));
			}
		});
}

function mendOf({status}: PostEnd): string {
	return status === null ? 'check the URL, its DNS and its certificate' : 'respond with 2xx; see the receiver’s log';
}

type ListenOptions = {forwardTo: string; event?: WebhookEventType[]};

const pollMs = 250;
const maxType = Math.max(...webhookEventTypes.map(type => type.length));

export function listenVerb(webhook: CliCommand): void {
	webhook
		.verb('listen', 'Forward events to a local program as they happen, until Ctrl-C')
		.sample('mailctl webhook listen --forward-to http://localhost:3000/hooks/mail')
		.requiredOption('--forward-to <url>', 'an http or https URL, on any host and port', forwardUrl)
		.option(
			'--event <event>',
			`${webhookEventTypes.join(', ')}; repeatable, or separated by commas; default: the first five`,
			webhookEvents,
		)
		.does<ListenOptions>(listen);
}

function forwardUrl(text: string): string {
	const url = URL.canParse(text) ? new URL(text) : null;
	// fetch refuses URLs with a password.
	if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
		throw new CliError(
			'usage',
			`--forward-to "${text}" is not allowed`,
			'use a URL such as http://localhost:3000/hooks',
		);
	}
	return url.href;
}

/**
 * Forwards the events of a temporary endpoint. Events are added to it in their own transactions and the daemon ignores
 * them, so none is missed in any delivery mode. Each event is forwarded once, in order.
 */
async function listen(session: Session, {forwardTo, event}: ListenOptions): Promise<void> {
	const stop = stopSignal();
	const {id: workspaceId} = await session.workspace();
	const vault = await session.vault();
	const events = [...new Set(event ?? defaultWebhookEvents)];
	const input = {workspaceId, mode: 'live' as const, url: listenerUrl(forwardTo), events};
	const added = await session.write(trx => addEndpoint(trx, session.tools, vault, input));
	if (!added) {
		throw new CliError('data', `the workspace has ${maxEndpoints} endpoints`, 'remove one first');
	}
	const {id} = added;
	const secret = vault.open(id, added.secret);
	try {
		if (!(await readDaemons(session)).isRunning) {
			session.terminal.warn(
				'mailctl: no daemon is running, so nothing arrives until you start it with mailctl serve',
			);
		}
		session.show({id, forward_to: forwardTo, events, signing_secret: secret}, () => [
			`forwarding to ${forwardTo} until Ctrl-C: ${events.join(', ')}`,
			`signing secret ${secret}`,
			'',
		]);
		while (!stop.aborted) {
			const delivery = await findWaiting(await session.reader(), id);
			if (delivery) {
				await forward(session, delivery, {forwardTo, secret, stop});
				await session.write(trx => deleteDeliveries(trx, [delivery.id]));
			} else if (await findEndpoint(await session.reader(), workspaceId, id)) {
				await sleep(pollMs, undefined, {signal: stop}).catch(() => undefined);
			} else {
				throw new CliError('unavailable', `the endpoint ${id} was removed`, 'run mailctl webhook listen again');
			}
		}
	} finally {
		await session.write(trx => removeEndpoint(trx, session.tools, workspaceId, id));
	}
}

type Target = {readonly forwardTo: string; readonly secret: string; readonly stop: AbortSignal};

/** Posts a delivery once and shows the response. */
async function forward(session: Session, delivery: StoredDelivery, {forwardTo, secret, stop}: Target): Promise<void> {
	const {id, eventType, messageId, body, createdAt} = delivery;
	const signing = {secret, next: null};
	const timeout = AbortSignal.timeout(session.settings().webhookTimeout);
	const posted = await fetch(forwardTo, {
		method: 'POST',
		headers: postHeaders({id, signing, body}, `mailctl/${version()}`, session.tools.clock.now()),
		body,
		redirect: 'manual',
		signal: AbortSignal.any([stop, timeout]),
	}).then(
		async response => {
			await response.body?.cancel();
			return {status: response.status, error: response.ok ? null : `it responded with ${response.status}`};
		},
		(problem: Error) => ({
			status: null,
			error: timeout.aborted ? 'no response in time' : toProblem(problem.cause ?? problem).error,
		}),
	);
	if (stop.aborted && posted.status === null) {
		return;
	}
	const {recipient} = JSON.parse(Buffer.from(body).toString()) as {recipient: string | null};
	session.show({id, type: eventType, message_id: messageId, recipient, ...posted}, () => [
		// Long values come last, so that the columns before them stay aligned.
		`${shortTime(createdAt).slice(11)}  ${eventType.padEnd(maxType)}  ${posted.status ?? '–  '}  ${messageId ?? '–'}  ${recipient ?? '–'}`,
		...(posted.status === null ? [`          ${posted.error}`] : []),
	]);
}

/** Returns a signal that aborts on the first Ctrl-C, SIGTERM or SIGHUP, so that the endpoint is removed. */
function stopSignal(): AbortSignal {
	const controller = new AbortController();
	for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
		process.once(signal, () => controller.abort());
	}
	return controller.signal;
}

export function deliveriesVerb(webhook: CliCommand): void {
	webhook
		.verb(
			'deliveries <id>',
			'List the deliveries of an endpoint, newest first, or show one (whd_…) with its attempts',
		)
		.sample('mailctl webhook deliveries whe_06f… --status exhausted')
		.option('--status <status>', deliveryStates.join(', '), deliveryState)
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

/** Finds a delivery. Throws bad data (65) if the workspace does not have it. */
async function chosenDelivery(session: Session, text: string): Promise<StoredDelivery> {
	const id = await session.idOf('whd', text);
	const {id: workspaceId} = await session.workspace();
	const delivery = id === undefined ? undefined : await findDelivery(await session.reader(), workspaceId, id);
	if (!delivery) {
		throw new CliError('data', `there is no delivery ${text}`, 'see mailctl webhook deliveries ENDPOINT');
	}
	return delivery;
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
		{title: 'LAST', cell: lastOf, cut: true},
		{name: 'created', cell: row => shortTime(row.createdAt)},
		{name: 'next attempt', cell: row => shortTime(row.nextAttemptAt)},
		{name: 'body', cell: row => Buffer.from(row.body).toString()},
	],
};

// Summarizes the last post in one word: the status, or the code at the end of its error.
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
			{title: 'RESPONSE', cell: post => post.error ?? `it responded with ${post.status}`},
		],
		posts,
		session.terminal.width,
	);
	session.one(deliveries, delivery, {json: {attempt_log: posts}, lines: ['', ...lines]});
}

type ReplayOptions = {since?: number; event?: WebhookEventType; endpoint?: string; status?: DeliveryState};

export function replayVerb(webhook: CliCommand): void {
	webhook
		.verb('replay [id]', 'Post a delivery again, or all deliveries since a time')
		.sample('mailctl webhook replay --since 4h --endpoint whe_06f… --status exhausted')
		.option(
			'--since <time>',
			'all with an event at this time or later: a time, or a duration before now',
			past('--since'),
		)
		.option('--event <event>', `only of this type: ${webhookEventTypes.join(', ')}`, webhookEvent)
		.option('--endpoint <id>', 'only of this endpoint')
		.option('--status <status>', `only those that are ${deliveryStates.join(', ')}`, deliveryState)
		.does<ReplayOptions, [string | undefined]>(async (session, options, id) => {
			if ((id === undefined) === (options.since === undefined)) {
				throw new CliError(
					'usage',
					'exactly one of an id and --since is required',
					'see mailctl webhook replay --help',
				);
			}
			if (id === undefined) {
				await replayAll(session, options.since ?? 0, options);
			} else {
				await replayOne(session, id);
			}
		});
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
	const all = await listEndpoints(await session.reader(), workspaceId, {after: null, limit: maxEndpoints});
	const endpoints = chosen ? [chosen] : all.filter(({url}) => !isListener(url));
	const progress = session.progress('deliveries');
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

/** Finds an endpoint. Throws bad data (65) if the workspace does not have it. */
export async function chosenEndpoint(session: Session, text: string): Promise<Endpoint> {
	const id = (await session.idOf('whe', text)) ?? missingEndpoint(text);
	const {id: workspaceId} = await session.workspace();
	return (await findEndpoint(await session.reader(), workspaceId, id)) ?? missingEndpoint(text);
}

export function missingEndpoint(id: string): never {
	throw new CliError('data', `there is no endpoint ${id}`, 'see mailctl webhook list');
}

// These throw a usage error (64).
const webhookEvent = oneOf('--event', webhookEventTypes);
const webhookFormat = oneOf('--format', webhookFormats);
const webhookRetry = oneOf('--retry', webhookRetries);

/** Accepts several values: repeated, separated by commas, or both. */
export function webhookEvents(text: string, previous: readonly WebhookEventType[] = []): WebhookEventType[] {
	return [...previous, ...text.split(',').map(webhookEvent)];
}
webhookEvents.choices = webhookEventTypes;

const deliveryState = oneOf('--status', deliveryStates);

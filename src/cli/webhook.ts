import type {Command} from 'commander';
import {addEndpoint, removeEndpoint, rotateSecret, setEndpointActive, signingSecret} from '../admin/webhooks.ts';
import {endpointView} from '../api/views.ts';
import {guardOf, postExample} from '../daemon/webhooks.ts';
import {storeTime} from '../kit/time.ts';
import {type WebhookEventType, webhookEventTypes} from '../mail/event.ts';
import {longestOverlap, mostEndpoints, usualOverlap} from '../mail/webhook.ts';
import {type Endpoint, endpointState, listEndpoints} from '../store/webhooks.ts';
import {createGuard} from '../webhook/guard.ts';
import type {PostEnd} from '../webhook/post.ts';
import {CliError} from './fault.ts';
import {duration} from './options.ts';
import {verb, version, yesVerb} from './program.ts';
import {action, type Session} from './session.ts';
import {fields, type Noun, shortTime} from './text.ts';
import {chosenEndpoint, deliveriesVerb, missingEndpoint, replayVerb, webhookEvents} from './webhook-deliveries.ts';
import {listenVerb} from './webhook-listen.ts';

export function webhookCommands(webhook: Command): void {
	verb(
		webhook,
		'add <url>',
		'Register an endpoint and show its signing secret',
		'mailctl webhook add https://shop.example/hooks --event delivered --event bounced',
	)
		.requiredOption('--event <event>', `${webhookEventTypes.join(', ')}; several, or with commas`, webhookEvents)
		.action(
			action<{event: WebhookEventType[]}, [string]>(async (session, options, url) => {
				const {id: workspaceId} = await session.workspace();
				const fault = createGuard(guardOf(session.settings())).urlFault(url);
				if (fault !== null) {
					throw new CliError('data', `${url} is no URL for webhooks`, `it ${fault}`);
				}
				const vault = await session.vault();
				const input = {workspaceId, mode: 'live' as const, url, events: [...new Set(options.event)]};
				const added = await session.write(trx => addEndpoint(trx, session.tools, vault, input));
				if (!added) {
					throw new CliError('data', `the workspace has ${mostEndpoints} endpoints`, 'remove one first');
				}
				await showEndpoint(session, added);
			}),
		);

	verb(webhook, 'list', 'List endpoints, newest first', 'mailctl webhook list').action(
		action(async session => {
			const {id: workspaceId} = await session.workspace();
			const rows = await listEndpoints(await session.reader(), workspaceId, {after: null, limit: mostEndpoints});
			session.list(await endpoints(session), rows);
		}),
	);

	verb(webhook, 'show <id>', 'Show an endpoint with its signing secret', 'mailctl webhook show whe_06f…').action(
		action<object, [string]>(async (session, _options, id) => {
			await showEndpoint(session, await chosenEndpoint(session, id));
		}),
	);

	yesVerb(
		webhook,
		'remove <id>',
		'Remove an endpoint with its deliveries; nothing more is posted to it',
		'mailctl webhook remove whe_06f… --yes',
	).action(
		action<{yes?: boolean}, [string]>(async (session, {yes}, text) => {
			const endpoint = await chosenEndpoint(session, text);
			const {id} = endpoint;
			await session.confirm(`Remove the endpoint ${endpoint.url} and all its deliveries?`, yes);
			await session.write(trx => removeEndpoint(trx, session.tools, endpoint.workspaceId, id));
			session.show({id, removed: true}, () => [`removed ${id}`]);
		}),
	);

	for (const [change, about] of [
		['enable', 'Post events to an endpoint again, also what waits for it'],
		['disable', 'Give an endpoint no events; what waits for it goes on waiting'],
	] as const) {
		verb(webhook, `${change} <id>`, about, `mailctl webhook ${change} whe_06f…`).action(
			action<object, [string]>(async (session, _options, text) => {
				const {id, workspaceId} = await chosenEndpoint(session, text);
				const changed = await session.write(trx =>
					setEndpointActive(trx, session.tools, workspaceId, id, change === 'enable'),
				);
				await showEndpoint(session, changed ?? missingEndpoint(id));
			}),
		);
	}

	verb(
		webhook,
		'rotate <id>',
		'Give an endpoint a new signing secret; the old one signs too for a while',
		'mailctl webhook rotate whe_06f… --overlap 24h',
	)
		.option(
			'--overlap <duration>',
			'how long the old secret lives on, at most 30d; 0: it ends now; default 24h',
			overlap,
		)
		.action(
			action<{overlap?: number}, [string]>(async (session, {overlap = usualOverlap}, text) => {
				const {id, workspaceId} = await chosenEndpoint(session, text);
				const vault = await session.vault();
				const input = {workspaceId, id, overlap};
				const rotated = await session.write(trx => rotateSecret(trx, session.tools, vault, input));
				await showEndpoint(session, rotated ?? missingEndpoint(id));
			}),
		);

	deliveriesVerb(webhook);
	replayVerb(webhook);
	testVerb(webhook);
	listenVerb(webhook);
}

function overlap(text: string): number {
	const milliseconds = duration('--overlap')(text);
	if (milliseconds > longestOverlap) {
		throw new CliError('usage', `--overlap "${text}" is not allowed`, 'use at most 30d');
	}
	return milliseconds;
}

/** Endpoints with their secrets, as they are now. */
async function endpoints(session: Session): Promise<Noun<Endpoint>> {
	const vault = await session.vault();
	const now = storeTime(session.tools.clock.now());
	const json = (row: Endpoint) => endpointView(row, signingSecret(vault, row), now);
	return {
		none: 'no endpoints, mailctl webhook add registers one',
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
			{name: 'failing since', cell: row => (row.failingSince === null ? undefined : shortTime(row.failingSince))},
			{
				name: 'signing secret',
				cell: row => json(row).signing_secret ?? `none that can be opened: mailctl webhook rotate ${row.id}`,
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

export function testVerb(webhook: Command): void {
	verb(
		webhook,
		'test <id>',
		'Post a signed example event now and show what comes back; nothing is stored',
		'mailctl webhook test whe_06f…',
	).action(
		action<object, [string]>(async (session, _options, id) => {
			const endpoint = await chosenEndpoint(session, id);
			const parts = {settings: session.settings(), version: version(), vault: await session.vault(), ...session.tools};
			const end = await postExample(parts, endpoint);
			session.show({acknowledged: end.error === null, ...end, ms: Math.round(end.ms)}, () =>
				fields([
					['answer', end.status ?? 'none'],
					['took', `${Math.round(end.ms)} ms`],
					['address', end.address],
					['tls', end.tls],
					...(end.detail === null ? [] : ([['detail', end.detail]] as const)),
				]),
			);
			if (end.error !== null) {
				throw new CliError('unavailable', `${endpoint.url} did not acknowledge it: ${end.error}`, mendOf(end));
			}
		}),
	);
}

function mendOf({status}: PostEnd): string {
	return status === null ? 'check the URL, its DNS and its certificate' : 'answer 2xx, see the log of the receiver';
}

import {CliError} from '../../cli/fault.ts';
import {fieldColumns} from '../../cli/field-options.ts';
import {readSecret} from '../../cli/files.ts';
import {type CliCommand, version} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {fields, type Noun, shortTime} from '../../cli/terminal-text.ts';
import {listVerb, operationVerb} from '../../cli/verbs.ts';
import {postExample} from '../../daemon/webhook-posting.ts';
import {storeTime} from '../../kit/time.ts';
import {maxEndpoints} from '../../mail/webhook.ts';
import {endpointView} from '../views.ts';
import {AddressGuard, toGuard} from './address-guard.ts';
import {chosenEndpoint, deliveriesVerb, replayVerb} from './deliveries-cli.ts';
import {listenVerb} from './listen-cli.ts';
import {
	addEndpoint,
	checkUrl,
	disableEndpoint,
	enableEndpoint,
	removeEndpoint,
	rotateSecret,
	signingSecret,
	testAdvice,
} from './rules.ts';
import {type Endpoint, endpointState, listEndpoints} from './store.ts';

export function webhookCommands(webhook: CliCommand): void {
	operationVerb(webhook, addEndpoint, {
		by: 'url',
		sample: 'mailctl webhook add https://shop.example/hooks --event delivered --event bounced',
		async complete(session, input) {
			const url = await readSecret(input.url);
			checkUrl(new AddressGuard(toGuard(session.settings())), url);
			return {...input, url};
		},
		shows: showEndpoint,
	});
	listVerb(webhook, 'List endpoints, newest first', endpoints, (reader, workspaceId) =>
		listEndpoints(reader, workspaceId, {after: null, limit: maxEndpoints}),
	);

	webhook
		.verb('show <id>', 'Show an endpoint with its signing secret')
		.sample('mailctl webhook show whe_06f…')
		.does<object, [string]>(async (session, _options, id) => {
			await showEndpoint(session, await chosenEndpoint(session, id));
		});

	const ofEndpoint = {by: 'id', kind: 'whe', shows: showEndpoint} as const;
	operationVerb(webhook, removeEndpoint, {
		...ofEndpoint,
		sample: 'mailctl webhook remove whe_06f… --yes',
		question: async (session, id) =>
			`Remove the endpoint ${(await chosenEndpoint(session, id)).url} and all its deliveries?`,
		shows: (session, {id}) => session.show({id, removed: true}, () => [`removed ${id}`]),
	});
	operationVerb(webhook, enableEndpoint, {...ofEndpoint, sample: 'mailctl webhook enable whe_06f…'});
	operationVerb(webhook, disableEndpoint, {...ofEndpoint, sample: 'mailctl webhook disable whe_06f…'});
	operationVerb(webhook, rotateSecret, {...ofEndpoint, sample: 'mailctl webhook rotate whe_06f… --overlap 24h'});
	deliveriesVerb(webhook);
	replayVerb(webhook);
	testVerb(webhook);
	listenVerb(webhook);
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
			...fieldColumns<Endpoint>(addEndpoint.input, row => row),
			{
				title: 'STATE',
				name: 'state',
				cell: row => (json(row).signing_secret === null ? 'secret damaged' : endpointState(row)),
				cut: true,
			},
			{title: 'EVENTS', cell: row => row.events.join(' '), cut: true},
			{title: 'URL', cell: row => row.url, cut: true},
			{name: 'disabled because', cell: row => row.disabledReason ?? undefined},
			{name: 'failing since', cell: row => (row.failingSince === null ? undefined : shortTime(row.failingSince))},
			{
				name: 'signing secret',
				cell: row => json(row).signing_secret ?? `damaged; replace it with mailctl webhook rotate ${row.id}`,
			},
			{name: 'old secret until', cell: row => formatExpiry(json(row).previous_secret_expires_at)},
			{name: 'created', cell: row => shortTime(row.createdAt)},
		],
	};
}

const formatExpiry = (time: string | null) => (time === null ? undefined : `${shortTime(time)} UTC`);

async function showEndpoint(session: Session, endpoint: Endpoint): Promise<void> {
	session.printRow(await endpoints(session), endpoint);
}

function testVerb(webhook: CliCommand): void {
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
			const result = await postExample(parts, endpoint);
			session.show(
				{acknowledged: result.error === null, ...result, retryAfterMs: undefined, ms: Math.round(result.ms)},
				() =>
					fields([
						['response', result.status ?? 'none'],
						['took', `${Math.round(result.ms)} ms`],
						['address', result.address],
						['tls', result.tls],
						...(result.detail === null ? [] : ([['detail', result.detail]] as const)),
					]),
			);
			if (result.error !== null) {
				throw new CliError(
					'unavailable',
					`${endpoint.url} did not acknowledge it: ${result.error}`,
					testAdvice(endpoint.url, result.status),
				);
			}
		});
}

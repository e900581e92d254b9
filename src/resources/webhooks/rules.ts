import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {webhookEventTypes} from '../../mail/message.ts';
import type {ActTools} from '../../mail/operator.ts';
import {Type} from '../../mail/type.ts';
import {
	deliveryStates,
	isListener,
	maxEndpoints,
	maxOverlap,
	webhookFormats,
	webhookRetries,
} from '../../mail/webhook.ts';
import {disabledNotice, notify} from '../../outcome/outbox.ts';
import {bumpGeneration} from '../../store/changes.ts';
import type {Vault} from '../../store/sealed.ts';
import {field} from '../fields.ts';
import {longOperation, notFound, type OperationContext, operation, Refused} from '../operation.ts';
import type {AddressGuard} from './address-guard.ts';
import {
	deleteEndpoint,
	type Endpoint,
	type EndpointChanges,
	findEndpoint,
	insertEndpoint,
	listEndpoints,
	replayDeliveries,
	replayDelivery,
	type StoredDelivery,
	switchEndpoint,
	updateEndpoint,
	updateSecrets,
} from './store.ts';

const eventMeanings = {
	delivered: 'the recipient’s mail server accepted the message',
	bounced: 'the message cannot be delivered',
	complained: 'the recipient reported the message as spam',
	opened: 'the recipient opened the message',
	clicked: 'the recipient clicked a link',
	deferred: 'the first attempt failed and will be retried',
	gave_up: 'mailctl or a relay stopped retrying',
	recipient_suppressed: 'an address was added to the suppression list',
	recipient_unsubscribed: 'a recipient unsubscribed from a topic or from all messages',
	domain_changed: 'a domain was verified, or its DNS records are missing',
	endpoint_disabled: 'another endpoint was disabled',
	received: 'a message was received, such as a reply',
};
const url = field(Type.String({maxLength: 2000}), {
	label: 'URL',
	description:
		'A public https URL. The host must not be local. The port must be 80, 443 or above 1023, and not the default port of a database.',
});
const events = field(
	Type.Array(Type.Enum([...webhookEventTypes]), {
		minItems: 1,
		maxItems: webhookEventTypes.length,
		uniqueItems: true,
	}),
	{option: 'event <event>', description: 'The events to post to this endpoint.', meanings: eventMeanings},
);
export const format = field(Type.Enum([...webhookFormats]), {
	description: '`full` adds fields to the five of the `default` format.',
	help: 'The content of posts: five fields, or more with full.',
	default: 'five fields',
	meanings: {full: 'adds the subject, tags, bounce reason and clicked link'},
});
export const retry = field(Type.Enum([...webhookRetries]), {
	description: '`default`: five attempts. `long`: three days, then the endpoint is disabled.',
	help: 'How posts are retried: five attempts, or with long for three days, after which the endpoint is disabled.',
	default: 'five attempts',
});

/** The fields of an endpoint. */
export const endpointFields = {url, events, format: Type.Optional(format), retry: Type.Optional(retry)};
/** The fields that a change of an endpoint may have. */
export const endpointChanges = {...endpointFields, url: Type.Optional(url), events: Type.Optional(events)};

const id = Type.String();
const manages = {scope: 'webhooks:manage', role: 'admin'} as const;
const secretBytes = 32;
const defaultOverlap = 86_400;

/** Throws `Refused` unless events may be posted to a URL, which depends on settings that operations do not know. */
export function checkUrl(guard: Pick<AddressGuard, 'urlProblem'>, text: string): void {
	const problem = guard.urlProblem(text);
	if (problem !== null) {
		const sentence = `The URL ${problem}.`;
		const wrong = `${text} is not allowed as a webhook URL`;
		throw new Refused('unprocessable_entity', {wrong, next: `it ${problem}`, api: sentence, page: sentence});
	}
}

/** Registers an endpoint with a new signing secret. An endpoint of a test key receives only events of test messages. */
export const addEndpoint = operation({
	...manages,
	fresh: true,
	seals: true,
	name: 'webhook add',
	summary: 'Register an endpoint and show its signing secret; - reads the URL from standard input',
	input: Type.Object(endpointFields, {
		additionalProperties: false,
		examples: [{url: 'https://shop.example/hooks/mail', events: ['delivered', 'bounced']}],
	}),
	async run({trx, tools, workspaceId, mode, vault}, input): Promise<Endpoint> {
		const id = tools.newId('whe');
		const endpoint: Endpoint = {
			id,
			workspaceId,
			mode,
			url: input.url,
			events: input.events,
			format: input.format ?? null,
			retry: input.retry ?? null,
			secret: (await vault()).seal(id, newSecret(tools.random)),
			previousSecret: null,
			previousUntil: null,
			disabledAt: null,
			disabledReason: null,
			failingSince: null,
			createdAt: storeTime(tools.clock.now()),
		};
		return (await insertEndpoint(trx, endpoint, maxEndpoints)) ? endpoint : tooManyEndpoints();
	},
	audit: 'webhook.created',
	entry: ({id: target}, input) => ({target, detail: toDetail(input)}),
	refreshes: false,
});

function tooManyEndpoints(): never {
	throw new Refused('unprocessable_entity', {
		wrong: `the workspace already has ${maxEndpoints} endpoints`,
		next: 'remove one first',
		api: `A workspace may have at most ${maxEndpoints} webhook endpoints. Delete one first.`,
		page: `A workspace may have at most ${maxEndpoints} endpoints. Remove one first.`,
	});
}

/** Returns what the audit trail records: only the host of a URL, because its path and query may contain a secret. */
function toDetail({url: text, ...fields}: EndpointChanges): Readonly<Record<string, unknown>> {
	return {...(text !== undefined && {host: new URL(text).host}), ...fields};
}

/** Changes an endpoint. Pending deliveries go to the new URL too, but keep their format. */
export const changeEndpoint = operation({
	...manages,
	name: 'webhook change',
	without: {cli: '`mailctl apply` changes endpoints'},
	input: Type.Object({id, ...endpointChanges}),
	async run(context, {id: endpointId, ...changes}): Promise<Endpoint> {
		await findOwn(context, endpointId);
		await updateEndpoint(context.trx, context.workspaceId, endpointId, changes);
		return await findOwn(context, endpointId);
	},
	audit: 'webhook.updated',
	entry: ({id: target}, {id: _, ...changes}) => ({target, detail: toDetail(changes)}),
});

/** Enables an endpoint, and posts the deliveries that were pending when it was disabled. */
export const enableEndpoint = operation({
	...manages,
	name: 'webhook enable',
	summary: 'Enable an endpoint; waiting events are posted',
	input: Type.Object({id}),
	async run(context, {id: endpointId}): Promise<Endpoint> {
		const endpoint = await findOwn(context, endpointId);
		// Failures from before it was disabled do not count any more.
		const failingSince = endpoint.disabledAt === null ? endpoint.failingSince : null;
		return await setEnabled(context, endpoint, {disabledAt: null, failingSince});
	},
	audit: 'webhook.enabled',
	entry: ({id: target}) => ({target}),
});

/** Disables an endpoint: it gets no events, and its pending deliveries wait until it is enabled. */
export const disableEndpoint = operation({
	...manages,
	name: 'webhook disable',
	summary: 'Disable an endpoint; waiting events are retained',
	input: Type.Object({id}),
	async run(context, {id: endpointId}): Promise<Endpoint> {
		const {trx, tools} = context;
		const endpoint = await findOwn(context, endpointId);
		const disabledAt = endpoint.disabledAt ?? storeTime(tools.clock.now());
		const disabled = await setEnabled(context, endpoint, {disabledAt, failingSince: endpoint.failingSince});
		if (endpoint.disabledAt === null) {
			await notify(trx, [disabledNotice(endpoint, {at: disabledAt, reason: 'by_hand'})], tools);
		}
		return disabled;
	},
	audit: 'webhook.disabled',
	entry: ({id: target}) => ({target}),
});

async function setEnabled(
	{trx, workspaceId}: OperationContext,
	endpoint: Endpoint,
	changes: Pick<Endpoint, 'disabledAt' | 'failingSince'>,
): Promise<Endpoint> {
	await switchEndpoint(trx, workspaceId, endpoint.id, changes);
	return {...endpoint, ...changes, disabledReason: null};
}

/** Removes an endpoint and stops its deliveries immediately. */
export const removeEndpoint = operation({
	...manages,
	fresh: true,
	name: 'webhook remove',
	summary: 'Remove an endpoint and its deliveries',
	input: Type.Object({id}),
	async run(context, {id: endpointId}): Promise<Endpoint> {
		const endpoint = await findOwn(context, endpointId);
		await deleteEndpoint(context.trx, context.workspaceId, endpointId, storeTime(context.tools.clock.now()));
		return endpoint;
	},
	audit: 'webhook.removed',
	entry: ({id: target}) => ({target}),
});

/**
 * Gives an endpoint a new signing secret. The current one also signs during the overlap; an even older one stops
 * signing immediately.
 */
export const rotateSecret = operation({
	...manages,
	fresh: true,
	seals: true,
	name: 'webhook rotate',
	summary: 'Replace the signing secret of an endpoint; the old one also signs for a while',
	without: {apply: 'a file has no secrets'},
	input: Type.Object({
		id,
		overlap: field(Type.Optional(Type.Integer({minimum: 0, maximum: maxOverlap / 1000})), {
			description: 'How long the old secret stays valid, at most 30d; 0 revokes it now.',
			unit: 'seconds',
			default: '24h',
		}),
	}),
	async run(context, {id: endpointId, overlap = defaultOverlap}): Promise<Endpoint> {
		const {trx, tools, workspaceId} = context;
		const endpoint = await findOwn(context, endpointId);
		const vault = await context.vault();
		const hasOverlap = overlap > 0 && signingSecret(vault, endpoint) !== null;
		const secrets = {
			secret: vault.seal(endpointId, newSecret(tools.random)),
			previousSecret: hasOverlap ? endpoint.secret : null,
			previousUntil: hasOverlap ? storeTime(tools.clock.now() + overlap * 1000) : null,
		};
		// Deliveries claimed with the old secret are claimed again with the new one.
		await updateSecrets(trx, workspaceId, endpointId, secrets);
		return {...endpoint, ...secrets};
	},
	audit: 'webhook.rotated',
	entry: ({id: target, previousUntil}) => ({target, detail: {overlap_until: previousUntil}}),
});

/** Returns the signing secret, or `null` if the stored one cannot be decrypted. A rotation then replaces it. */
export function signingSecret(vault: Vault, {id: owner, secret}: Pick<Endpoint, 'id' | 'secret'>): string | null {
	try {
		return vault.open(owner, secret);
	} catch {
		return null;
	}
}

function newSecret(random: ActTools['random']): string {
	return `whsec_${random(secretBytes).toString('base64url')}`;
}

/** Returns the endpoint. Throws `Refused` if the workspace does not have it, or a test key may not see it. */
async function findOwn({trx, workspaceId, mode}: OperationContext, endpointId: string): Promise<Endpoint> {
	const endpoint = await findEndpoint(trx, workspaceId, endpointId);
	return endpoint && (mode === 'live' || endpoint.mode === mode) ? endpoint : endpointNotFound(endpointId);
}

/** Throws `Refused` because there is no such endpoint. */
export function endpointNotFound(endpointId: string): never {
	const page = 'Endpoint not found.';
	return notFound('webhook', endpointId, {wrong: `endpoint ${endpointId} not found`, page});
}

/** Returns how to fix the cause of a failed test, as a clause. `status` is that of the response, if there was one. */
export function testAdvice(url: string, status: number | null): string {
	if (status !== null) {
		return 'respond with 2xx; see the receiver’s log';
	}
	return /^https:/i.test(url)
		? 'check the URL, its DNS and its certificate'
		: 'check the URL, and that the program listens on its port';
}

/** Posts a delivery again. */
export const replay = operation({
	scope: 'webhooks:manage',
	role: 'operator',
	name: 'webhook replay',
	without: {apply: 'a file has no deliveries'},
	input: Type.Object({id}),
	async run({trx, tools, workspaceId, mode}, {id: deliveryId}): Promise<StoredDelivery> {
		const now = storeTime(tools.clock.now());
		const visible = mode === 'test' ? mode : undefined;
		return (await replayDelivery(trx, workspaceId, deliveryId, now, visible)) ?? deliveryNotFound(deliveryId);
	},
	audit: 'webhook.replayed',
	entry: ({id: target}) => ({target}),
});

/** Throws `Refused` because there is no such delivery. */
export function deliveryNotFound(deliveryId: string): never {
	const page = 'Delivery not found.';
	const wrong = `delivery ${deliveryId} not found`;
	return notFound('delivery', deliveryId, {wrong, next: 'see mailctl webhook deliveries ENDPOINT', page});
}

const rowsPerStep = 1000;

/**
 * Posts again the deliveries for events since a time, and returns their number. Runs in steps, so that others can write
 * in between. Events that arrive during the replay are not included.
 */
export const replaySince = longOperation({
	role: 'operator',
	name: 'webhook replay',
	without: {api: 'programs replay one delivery at a time', apply: 'a file has no deliveries'},
	input: Type.Object({
		since: field(Type.Integer(), {
			option: 'since <time>',
			description: 'All with an event at this time or later: a time, or a duration before now.',
		}),
		event: field(Type.Optional(Type.Enum([...webhookEventTypes])), {description: 'Only of this type.'}),
		endpoint: field(Type.Optional(Type.String()), {option: 'endpoint <id>', description: 'Only of this endpoint.'}),
		status: field(Type.Optional(Type.Enum([...deliveryStates])), {description: 'Only those in this state.'}),
	}),
	async work({workspaceId, tools, change, onProgress}, {since, event, endpoint, status}, begin) {
		const until = tools.clock.now();
		const record = begin(endpoint ?? null);
		let replayed = 0;
		for (const endpointId of await change(trx => targetIds(trx, workspaceId, endpoint))) {
			const filter = {workspaceId, endpointId, since, until, eventType: event, state: status};
			for (let after: string | null | undefined = null; after !== undefined; ) {
				const step = {after, limit: rowsPerStep, now: storeTime(tools.clock.now())};
				const ids: string[] = await change(async trx => {
					await bumpGeneration(trx);
					const restarted = await replayDeliveries(trx, filter, step);
					const deliveries = replayed + restarted.length;
					await record(trx, {since: storeTime(since), event, status, deliveries});
					return restarted;
				});
				replayed += ids.length;
				onProgress?.(replayed);
				after = ids.length === rowsPerStep ? ids.at(-1) : undefined;
			}
		}
		return replayed;
	},
	audit: 'webhook.replayed',
});

/** Returns the id of the endpoint, or of all endpoints of the workspace except those of `mailctl webhook listen`. */
async function targetIds(trx: Knex.Transaction, workspaceId: string, endpoint: string | undefined): Promise<string[]> {
	if (endpoint !== undefined) {
		return [((await findEndpoint(trx, workspaceId, endpoint)) ?? endpointNotFound(endpoint)).id];
	}
	const all = await listEndpoints(trx, workspaceId, {after: null, limit: maxEndpoints});
	return all.filter(({url}) => !isListener(url)).map(({id}) => id);
}

import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import type {Mode, WebhookEventType} from '../../mail/message.ts';
import type {Acting, ActTools} from '../../mail/operator.ts';
import {maxEndpoints} from '../../mail/webhook.ts';
import {disabledNotice, notify} from '../../outcome/outbox.ts';
import {bumpGeneration} from '../../store/changes.ts';
import type {Vault} from '../../store/sealed.ts';
import {beginAct, recordAct} from '../audit/store.ts';
import {
	deleteEndpoint,
	type Endpoint,
	type EndpointChanges,
	findEndpoint,
	insertEndpoint,
	type ReplayFilter,
	replayDeliveries,
	replayDelivery,
	type StoredDelivery,
	switchEndpoint,
	updateEndpoint,
	updateSecrets,
} from './store.ts';

type EndpointInput = {
	readonly workspaceId: string;
	/** The mode of the key that registers it. */
	readonly mode: Mode;
	/** A URL that the address guard has accepted. */
	readonly url: string;
	readonly events: readonly WebhookEventType[];
} & Pick<EndpointChanges, 'format' | 'retry'>;

const secretBytes = 32;

/** Registers an endpoint with a new signing secret. Returns `undefined` if the workspace has reached its limit. */
export async function addEndpoint(
	trx: Knex.Transaction,
	tools: ActTools,
	vault: Vault,
	{workspaceId, mode, url, events, format, retry}: EndpointInput,
): Promise<Endpoint | undefined> {
	const {clock, newId, random} = tools;
	const id = newId('whe');
	const endpoint: Endpoint = {
		id,
		workspaceId,
		mode,
		url,
		events,
		format: format ?? null,
		retry: retry ?? null,
		secret: vault.seal(id, newSecret(random)),
		previousSecret: null,
		previousUntil: null,
		disabledAt: null,
		disabledReason: null,
		failingSince: null,
		createdAt: storeTime(clock.now()),
	};
	if (!(await insertEndpoint(trx, endpoint, maxEndpoints))) {
		return undefined;
	}
	await recordAct(trx, tools, {
		action: 'webhook.created',
		workspaceId,
		target: id,
		detail: {host: hostOf(url), events, ...(format && {format}), ...(retry && {retry})},
	});
	return endpoint;
}

/** Returns the signing secret, or `null` if the stored one cannot be decrypted. A rotation then replaces it. */
export function signingSecret(vault: Vault, {id, secret}: Pick<Endpoint, 'id' | 'secret'>): string | null {
	try {
		return vault.open(id, secret);
	} catch {
		return null;
	}
}

function newSecret(random: ActTools['random']): string {
	return `whsec_${random(secretBytes).toString('base64url')}`;
}

/**
 * Gives an endpoint a new signing secret. The current one also signs for `overlap` milliseconds; an even older one
 * stops signing immediately. Returns `undefined` if the endpoint does not exist.
 */
export async function rotateSecret(
	trx: Knex.Transaction,
	tools: ActTools,
	vault: Vault,
	{workspaceId, id, overlap}: {readonly workspaceId: string; readonly id: string; readonly overlap: number},
): Promise<Endpoint | undefined> {
	const endpoint = await findEndpoint(trx, workspaceId, id);
	if (!endpoint) {
		return undefined;
	}
	const hasOverlap = overlap > 0 && signingSecret(vault, endpoint) !== null;
	const secrets = {
		secret: vault.seal(id, newSecret(tools.random)),
		previousSecret: hasOverlap ? endpoint.secret : null,
		previousUntil: hasOverlap ? storeTime(tools.clock.now() + overlap) : null,
	};
	await updateSecrets(trx, workspaceId, id, secrets);
	const detail = {overlap_until: secrets.previousUntil};
	await recordAct(trx, tools, {action: 'webhook.rotated', workspaceId, target: id, detail});
	// Deliveries claimed with the old secret are claimed again with the new one.
	await bumpGeneration(trx);
	return {...endpoint, ...secrets};
}

/** Removes an endpoint and stops its deliveries immediately. Returns `false` if it does not exist. */
export async function removeEndpoint(
	trx: Knex.Transaction,
	tools: Acting,
	workspaceId: string,
	id: string,
): Promise<boolean> {
	const isRemoved = await deleteEndpoint(trx, workspaceId, id, storeTime(tools.clock.now()));
	if (isRemoved) {
		await recordAct(trx, tools, {action: 'webhook.removed', workspaceId, target: id});
	}
	await bumpGeneration(trx);
	return isRemoved;
}

/**
 * Changes an endpoint. Pending deliveries go to the new URL too, but keep their format. Returns `false` if the endpoint
 * does not exist.
 */
export async function changeEndpoint(
	trx: Knex.Transaction,
	tools: ActTools,
	{workspaceId, id, ...changes}: {readonly workspaceId: string; readonly id: string} & EndpointChanges,
): Promise<boolean> {
	const isChanged = await updateEndpoint(trx, workspaceId, id, changes);
	if (isChanged) {
		const {url, ...rest} = changes;
		const detail = {...(url !== undefined && {host: hostOf(url)}), ...rest};
		await recordAct(trx, tools, {action: 'webhook.updated', workspaceId, target: id, detail});
		await bumpGeneration(trx);
	}
	return isChanged;
}

/**
 * Enables or disables an endpoint. A disabled one gets no events, and its pending deliveries continue once it is
 * enabled. Returns `undefined` if the endpoint does not exist.
 */
export async function setEndpointActive(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	id: string,
	isActive: boolean,
): Promise<Endpoint | undefined> {
	const endpoint = await findEndpoint(trx, workspaceId, id);
	if (!endpoint) {
		return undefined;
	}
	const disabledAt = isActive ? null : (endpoint.disabledAt ?? storeTime(tools.clock.now()));
	// Failures from before it was disabled do not count once it is enabled again.
	const failingSince = isActive && endpoint.disabledAt !== null ? null : endpoint.failingSince;
	await switchEndpoint(trx, workspaceId, id, {disabledAt, failingSince});
	await recordAct(trx, tools, {action: isActive ? 'webhook.enabled' : 'webhook.disabled', workspaceId, target: id});
	if (disabledAt !== null && endpoint.disabledAt === null) {
		await notify(trx, [disabledNotice(endpoint, {at: disabledAt, reason: 'by_hand'})], tools);
	}
	await bumpGeneration(trx);
	return {...endpoint, disabledAt, disabledReason: null, failingSince};
}

/**
 * Posts a delivery again. Returns `undefined` if the delivery does not exist, or its endpoint was deleted or has
 * another mode than `mode`.
 */
export async function replay(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	id: string,
	mode?: Mode | undefined,
): Promise<StoredDelivery | undefined> {
	const replayed = await replayDelivery(trx, workspaceId, id, storeTime(tools.clock.now()), mode);
	if (replayed) {
		await recordAct(trx, tools, {action: 'webhook.replayed', workspaceId, target: id});
		await bumpGeneration(trx);
	}
	return replayed;
}

type Replay = Omit<ReplayFilter, 'endpointId' | 'until'> & {
	readonly endpointIds: readonly string[];
	/** The target in the audit trail: the endpoint, or `null` for all endpoints of the workspace. */
	readonly target: string | null;
};

const rowsPerStep = 1000;

/**
 * Posts again the deliveries of some endpoints for events since a time, and returns their number. Runs in steps, so
 * that others can write in between. Events that arrive during the replay are not included.
 */
export async function replaySince(
	write: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>,
	tools: ActTools,
	{endpointIds, target, ...filter}: Replay,
	onStep: (replayed: number) => void = () => undefined,
): Promise<number> {
	const {workspaceId, since, eventType: event, state: status} = filter;
	const until = tools.clock.now();
	const record = beginAct(tools, {action: 'webhook.replayed', workspaceId, target});
	let replayed = 0;
	for (const endpointId of endpointIds) {
		for (let after: string | null | undefined = null; after !== undefined; ) {
			const step = {after, limit: rowsPerStep, now: storeTime(tools.clock.now())};
			const ids: string[] = await write(async trx => {
				await bumpGeneration(trx);
				const restarted = await replayDeliveries(trx, {...filter, endpointId, until}, step);
				await record(trx, {since: storeTime(since), event, status, deliveries: replayed + restarted.length});
				return restarted;
			});
			replayed += ids.length;
			onStep(replayed);
			after = ids.length === rowsPerStep ? ids.at(-1) : undefined;
		}
	}
	return replayed;
}

/** Returns only the host of a URL, because its path and query may contain a secret. */
function hostOf(url: string): string {
	return new URL(url).host;
}

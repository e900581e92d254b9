import type {Knex} from 'knex';
import type {WebhookEventType} from '../mail/event.ts';
import {storeTime} from '../mail/time.ts';
import {mostEndpoints} from '../mail/webhook.ts';
import {bumpGeneration} from '../store/changes.ts';
import type {Vault} from '../store/sealed.ts';
import {
	deleteEndpoint,
	type Endpoint,
	findEndpoint,
	insertEndpoint,
	switchEndpoint,
} from '../store/webhook-endpoints.ts';
import type {Tools} from './tools.ts';

export type EndpointInput = {
	readonly workspaceId: string;
	/** One that the guard has passed. */
	readonly url: string;
	readonly events: readonly WebhookEventType[];
};

const secretBytes = 32;

/** Registers an endpoint with a new signing secret. Undefined: the workspace has as many as it may have. */
export async function addEndpoint(
	trx: Knex.Transaction,
	{clock, newId, random}: Tools,
	vault: Vault,
	{workspaceId, url, events}: EndpointInput,
): Promise<Endpoint | undefined> {
	const id = newId('whe');
	const endpoint: Endpoint = {
		id,
		workspaceId,
		url,
		events,
		secret: vault.seal(id, `whsec_${random(secretBytes).toString('base64url')}`),
		disabledAt: null,
		failingSince: null,
		createdAt: storeTime(clock.now()),
	};
	return (await insertEndpoint(trx, endpoint, mostEndpoints)) ? endpoint : undefined;
}

/** Its deliveries stop at once. False: there is no such endpoint. */
export async function removeEndpoint(
	trx: Knex.Transaction,
	{clock}: Tools,
	workspaceId: string,
	id: string,
): Promise<boolean> {
	const removed = await deleteEndpoint(trx, workspaceId, id, storeTime(clock.now()));
	await bumpGeneration(trx);
	return removed;
}

/** A disabled endpoint gets no events; what waits for it goes on when it is enabled. Undefined: there is none. */
export async function setEndpointActive(
	trx: Knex.Transaction,
	{clock}: Tools,
	workspaceId: string,
	id: string,
	active: boolean,
): Promise<Endpoint | undefined> {
	const endpoint = await findEndpoint(trx, workspaceId, id);
	if (!endpoint) {
		return undefined;
	}
	const disabledAt = active ? null : (endpoint.disabledAt ?? storeTime(clock.now()));
	await switchEndpoint(trx, workspaceId, id, disabledAt);
	await bumpGeneration(trx);
	return {...endpoint, disabledAt};
}

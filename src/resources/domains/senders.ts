import type {Knex} from 'knex';
import {generateSigningKeys} from '../../compose/dkim.ts';
import {storeTime} from '../../kit/time.ts';
import type {Address} from '../../mail/address.ts';
import type {ActTools} from '../../mail/operator.ts';
import {bumpGeneration} from '../../store/changes.ts';
import type {Vault} from '../../store/sealed.ts';
import {recordAct} from '../audit/store.ts';
import {addDomain} from './domains.ts';
import type {SigningKeys} from './signing-keys.ts';
import {deleteSender, findDomain, findSender, insertSender, type Sender, updateSender} from './store.ts';

/**
 * Returns the state of a sender. Sends from an `unverified` one are refused: neither DNS nor an operator verified it.
 */
export function senderState({disabled_at, verified_at}: Sender): 'ready' | 'unverified' | 'disabled' {
	return disabled_at === null ? (verified_at === null ? 'unverified' : 'ready') : 'disabled';
}

type SenderInput = {
	readonly workspaceId: string;
	readonly address: Address;
	readonly name: string | null;
	/** Whether an operator verified the sender. Otherwise it is verified together with its domain. */
	readonly verified: boolean;
	/** Creates the keys of the domain if it has to be added. */
	readonly newKeys: () => Promise<SigningKeys>;
};

/**
 * Creates the keys of a sender's domain if the workspace does not have it. This is slow, so it is done before the
 * transaction.
 */
export async function prepareKeys(
	reader: Knex,
	workspaceId: string,
	domain: string,
	makeKeys: (workspaceId: string) => Promise<SigningKeys> = generateSigningKeys,
): Promise<() => Promise<SigningKeys>> {
	const keys = (await findDomain(reader, workspaceId, domain)) ? undefined : await makeKeys(workspaceId);
	// A domain that existed may be removed before the transaction.
	return async () => keys ?? (await generateSigningKeys());
}

/** Adds a sender, and its domain with keys if missing. Returns `undefined` if the address already exists. */
export async function addSender(
	trx: Knex.Transaction,
	tools: ActTools,
	vault: Vault,
	{workspaceId, address, name, verified, newKeys}: SenderInput,
): Promise<Sender | undefined> {
	const now = storeTime(tools.clock.now());
	const find = () => findDomain(trx, workspaceId, address.domain);
	// If another node is adding the domain at the same time, it exists once that node's transaction has ended.
	const domain =
		(await find()) ??
		(await addDomain(trx, tools, vault, {workspaceId, name: address.domain, keys: await newKeys()}))?.domain ??
		(await find());
	if (!domain) {
		throw new Error(`The domain ${address.domain} was added and removed concurrently. Try again.`);
	}
	const sender: Sender = {
		id: tools.newId('snd'),
		workspace_id: workspaceId,
		domain_id: domain.id,
		address: address.spelling,
		address_key: address.key,
		name,
		verified_at: verified ? now : null,
		disabled_at: null,
		created_at: now,
	};
	const isAdded = await insertSender(trx, sender);
	await bumpGeneration(trx);
	if (isAdded) {
		await record(trx, tools, 'sender.added', sender, {verified});
	}
	return isAdded ? {...sender, verified_at: sender.verified_at ?? domain.verified_at} : undefined;
}

/** A change to a sender. `unverify` reverts an operator's verification, so that only the domain verifies it. */
export type SenderChange = 'verify' | 'unverify' | 'disable' | 'enable' | {readonly name: string | null};

/** Verifies, disables, enables or renames a sender. Returns `undefined` if it does not exist. */
export async function changeSender(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	addressKey: string,
	change: SenderChange,
): Promise<Sender | undefined> {
	const sender = await findSender(trx, workspaceId, addressKey);
	if (!sender) {
		return undefined;
	}
	const now = storeTime(tools.clock.now());
	const changes =
		typeof change === 'object'
			? change
			: {
					verify: {verified_at: sender.verified_at ?? now},
					unverify: {verified_at: null},
					disable: {disabled_at: sender.disabled_at ?? now},
					enable: {disabled_at: null},
				}[change];
	await updateSender(trx, workspaceId, addressKey, changes);
	await (typeof change === 'object'
		? record(trx, tools, 'sender.renamed', sender, change)
		: record(trx, tools, acts[change], sender));
	await bumpGeneration(trx);
	return {...sender, ...changes};
}

/** Removes a sender. Its queued messages end as `errored`. Returns `false` if it does not exist. */
export async function removeSender(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	by: {readonly id: string} | {readonly addressKey: string},
): Promise<boolean> {
	const removed = await deleteSender(trx, workspaceId, by);
	if (removed) {
		await record(trx, tools, 'sender.removed', removed);
		await bumpGeneration(trx);
	}
	return removed !== undefined;
}

const acts = {
	verify: 'sender.verified',
	unverify: 'sender.unverified',
	disable: 'sender.disabled',
	enable: 'sender.enabled',
};

async function record(
	trx: Knex.Transaction,
	tools: ActTools,
	action: string,
	{id, workspace_id: workspaceId, address}: Pick<Sender, 'id' | 'workspace_id' | 'address'>,
	detail: object = {},
): Promise<void> {
	await recordAct(trx, tools, {action, workspaceId, target: id, detail: {address, ...detail}});
}

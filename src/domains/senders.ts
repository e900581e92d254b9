import type {Knex} from 'knex';
import {generateSigningKeys} from '../compose/dkim.ts';
import {storeTime} from '../kit/time.ts';
import type {Address} from '../mail/address.ts';
import type {ActTools} from '../mail/operator.ts';
import {recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {deleteSender, findDomain, findSender, insertSender, type Sender, updateSender} from '../store/domains.ts';
import type {Vault} from '../store/sealed.ts';
import {addDomain} from './domains.ts';
import type {SigningKeys} from './signing-keys.ts';

/** `unverified`: neither DNS nor an operator verified it, and sends from it are refused. */
export function senderState({disabled_at, verified_at}: Sender): 'ready' | 'unverified' | 'disabled' {
	return disabled_at === null ? (verified_at === null ? 'unverified' : 'ready') : 'disabled';
}

type SenderInput = {
	readonly workspaceId: string;
	readonly address: Address;
	readonly name: string | null;
	/** An operator says so; otherwise the sender is verified when its domain is. */
	readonly verified: boolean;
	/** For the domain, where it has to be made. */
	readonly newKeys: () => Promise<SigningKeys>;
};

/**
 * Keys for a sender's domain if the workspace lacks it. They take a while, in the thread pool, and are made before the
 * transaction, which nothing slow should hold open.
 */
export async function prepareKeys(
	reader: Knex,
	workspaceId: string,
	domain: string,
	makeKeys: (workspaceId: string) => Promise<SigningKeys> = generateSigningKeys,
): Promise<() => Promise<SigningKeys>> {
	const keys = (await findDomain(reader, workspaceId, domain)) ? undefined : await makeKeys(workspaceId);
	// A domain that was there may have been removed meanwhile.
	return async () => keys ?? (await generateSigningKeys());
}

/** Adds a sender, and its domain with keys if that is missing. Undefined: the address is there already. */
export async function addSender(
	trx: Knex.Transaction,
	tools: ActTools,
	vault: Vault,
	{workspaceId, address, name, verified, newKeys}: SenderInput,
): Promise<Sender | undefined> {
	const now = storeTime(tools.clock.now());
	const find = () => findDomain(trx, workspaceId, address.domain);
	// Another node may be adding it just now: then it is there once its transaction has ended.
	const domain =
		(await find()) ??
		(await addDomain(trx, tools, vault, {workspaceId, name: address.domain, keys: await newKeys()}))?.domain ??
		(await find());
	if (!domain) {
		throw new Error(`The domain ${address.domain} was added and removed meanwhile.`);
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
	const added = await insertSender(trx, sender);
	await bumpGeneration(trx);
	if (added) {
		await record(trx, tools, 'sender.added', sender, {verified});
	}
	return added ? {...sender, verified_at: sender.verified_at ?? domain.verified_at} : undefined;
}

/** `unverify`: from now on it is verified when its domain is. */
export type SenderChange = 'verify' | 'unverify' | 'disable' | 'enable' | {readonly name: string | null};

/** Marks as verified, switches off and on, or renames. Undefined: there is no such sender. */
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

/** Its queued mail ends `errored`. False: there is no such sender. */
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

import type {Knex} from 'knex';
import {generateSigningKeys} from '../../compose/dkim.ts';
import {storeTime} from '../../kit/time.ts';
import {Type} from '../../mail/type.ts';
import {recordAct} from '../audit/store.ts';
import {field, optionalOrNull} from '../fields.ts';
import {checkedAddress} from '../formats.ts';
import {alreadyExists, type InputOf, notFound, type OperationContext, operation} from '../operation.ts';
import {addDomain, insertWithKeys} from './rules.ts';
import type {SigningKeys} from './signing-keys.ts';
import {
	type Domain,
	deleteSender,
	findDomain,
	findSenderById,
	insertSender,
	type Sender,
	updateStoredSender,
} from './store.ts';

/**
 * Returns the state of a sender. Sends from an `unverified` one are refused: neither DNS nor an operator verified it.
 */
export function senderState({disabled_at, verified_at}: Sender): 'ready' | 'unverified' | 'disabled' {
	if (disabled_at !== null) {
		return 'disabled';
	}
	return verified_at === null ? 'unverified' : 'ready';
}

const manages = {scope: 'senders:manage', role: 'admin'} as const;
const id = Type.String();
const name = Type.String({format: 'label'});

/** Creates the keys of the sender's domain if it has to be added. */
type WithNewKeys = {readonly newKeys: () => Promise<SigningKeys>};

const newSender = Type.Object(
	{
		address: field(Type.String({format: 'email'}), {
			description: 'A bare address. Its domain is created with signing keys if the workspace does not have it.',
		}),
		name: field(Type.Optional(name), {description: 'The display name of `From`, 1 to 200 characters.'}),
	},
	{additionalProperties: false, examples: [{address: 'no-reply@shop.example', name: 'Shop'}]},
);

/** Adds a sender, and its domain with keys if missing. */
export const addSender = operation({
	...manages,
	seals: true,
	name: 'sender add',
	input: newSender,
	async run(
		context,
		// Only an operator verifies a sender. Otherwise it is verified together with its domain.
		input: InputOf<typeof newSender> & WithNewKeys & {readonly verified?: boolean},
	): Promise<Sender> {
		const {trx, tools, workspaceId} = context;
		const address = checkedAddress(input.address);
		const now = storeTime(tools.clock.now());
		const domain = await ensureDomain(context, address.domain, input.newKeys);
		const sender: Sender = {
			id: tools.newId('snd'),
			workspace_id: workspaceId,
			domain_id: domain.id,
			address: address.spelling,
			address_key: address.key,
			name: input.name ?? null,
			verified_at: input.verified ? now : null,
			disabled_at: null,
			created_at: now,
		};
		return (await insertSender(trx, sender))
			? {...sender, verified_at: sender.verified_at ?? domain.verified_at}
			: alreadyExists('sender', 'address', input.address);
	},
	audit: 'sender.added',
	entry: ({id: target, address}, {verified = false}) => ({target, detail: {address, verified}}),
});

/** Returns the domain of a sender, which is added with new keys if the workspace does not have it. */
async function ensureDomain(
	context: OperationContext,
	domainName: string,
	newKeys: () => Promise<SigningKeys>,
): Promise<Domain> {
	const {trx, tools, workspaceId} = context;
	const existing = await findDomain(trx, workspaceId, domainName);
	if (existing) {
		return existing;
	}
	const added = await insertWithKeys(context, {name: domainName, keys: await newKeys(), ownHosts: []});
	if (added) {
		const act = {target: added.domain.id, detail: {name: domainName}};
		await recordAct(trx, tools, {action: addDomain.audit, workspaceId, ...act});
		return added.domain;
	}
	// Another node added the domain concurrently. Its transaction has ended, so the domain exists now.
	const domain = await findDomain(trx, workspaceId, domainName);
	if (!domain) {
		throw new Error(`The domain ${domainName} was added and removed concurrently. Try again.`);
	}
	return domain;
}

/**
 * Creates the keys of a sender's domain if the workspace does not have it. This is slow, so it is done before the
 * transaction.
 */
export async function prepareKeys(
	reader: Knex,
	workspaceId: string,
	domain: string,
	makeKeys: (workspaceId: string) => Promise<SigningKeys> = generateSigningKeys,
): Promise<WithNewKeys> {
	const keys = (await findDomain(reader, workspaceId, domain)) ? undefined : await makeKeys(workspaceId);
	// A domain that existed may be removed before the transaction.
	return {newKeys: async () => keys ?? (await generateSigningKeys())};
}

/** Renames, disables or enables a sender. Omitted fields stay unchanged. */
export const updateSender = operation({
	...manages,
	name: 'sender update',
	without: {cli: 'sender rename, disable and enable change one thing each'},
	input: Type.Object(
		{
			id,
			name: field(optionalOrNull(name), {
				description: 'The display name of `From`, 1 to 200 characters; `null` removes it.',
			}),
			active: field(Type.Optional(Type.Boolean()), {description: '`false` refuses sends from the address.'}),
		},
		{additionalProperties: false, examples: [{active: false}]},
	),
	run: (context, {id: requested, name: newName, active}) =>
		change(context, requested, ({disabled_at}, now) => ({
			...(newName !== undefined && {name: newName}),
			...(active !== undefined && {disabled_at: active ? null : (disabled_at ?? now)}),
		})),
	audit: 'sender.renamed',
	entry: ({id: target, address}, {name: newName, active}) => [
		...(newName === undefined ? [] : [{target, detail: {address, name: newName}}]),
		...(active === undefined
			? []
			: [{action: active ? 'sender.enabled' : 'sender.disabled', target, detail: {address}}]),
	],
});

/** Verifies a sender, regardless of DNS. With `verified: false` only its domain verifies it from now on. */
export const verifySender = operation({
	role: 'admin',
	// It lets mail go out in the name of a domain that DNS has not verified.
	everywhere: true,
	name: 'sender verify',
	without: {api: 'only operators of the installation can vouch for an address'},
	input: Type.Object({id}),
	run: (context, {id: requested, verified = true}: {readonly id: string; readonly verified?: boolean}) =>
		change(context, requested, ({verified_at}, now) => ({verified_at: verified ? (verified_at ?? now) : null})),
	audit: 'sender.verified',
	entry: ({id: target, address}, {verified = true}) => ({
		...(!verified && {action: 'sender.unverified'}),
		target,
		detail: {address},
	}),
});

type SenderChanges = Parameters<typeof updateStoredSender>[2];

async function change(
	{trx, tools, workspaceId}: OperationContext,
	requested: string,
	toChanges: (sender: Sender, now: string) => SenderChanges,
): Promise<Sender> {
	const sender = (await findSenderById(trx, workspaceId, requested)) ?? notFound('sender', requested);
	const changes = toChanges(sender, storeTime(tools.clock.now()));
	await updateStoredSender(trx, sender.id, changes);
	return {...sender, ...changes};
}

/** Removes a sender. Its queued messages end as `errored`. */
export const removeSender = operation({
	...manages,
	fresh: true,
	name: 'sender remove',
	input: Type.Object({id}),
	run: async ({trx, workspaceId}, {id: requested}) =>
		(await deleteSender(trx, workspaceId, requested)) ?? notFound('sender', requested),
	audit: 'sender.removed',
	entry: ({id: target, address}) => ({target, detail: {address}}),
});

import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {parseDomain} from '../../mail/address.ts';
import {Type} from '../../mail/type.ts';
import {field, optionalOrNull} from '../fields.ts';
import {type InputOf, notFound, type OperationContext, operation, Refused} from '../operation.ts';
import {deleteInboundAt} from '../received/store.ts';
import {checkRoom} from '../workspaces/limits.ts';
import {returnPathHost} from './domain-records.ts';
import {claimLinkHost} from './link-host.ts';
import {freeSelectors, keyRows, type SigningKeys} from './signing-keys.ts';
import {
	type DkimKey,
	type Domain,
	deleteDkimKeys,
	deleteDomain,
	findDomainById,
	insertDkimKeys,
	insertDomain,
	keyState,
	listDkimKeys,
	listDomainSenders,
	setLinkHost,
} from './store.ts';

/** The domain of the sample sender. It is reserved (RFC 2606 §3), so its records cannot be published. */
export const sampleDomain = 'example.com';

/** RFC 1035 §2.3.4, without the trailing dot. */
const maxHostLength = 253;

/**
 * Returns the problem with the return path of a domain as a clause for people, or `null`. It must be below the domain,
 * because other hosts may belong to another tenant.
 */
export function returnPathProblem(name: string, host: string | null): string | null {
	if (host !== null && !host.endsWith(`.${name}`)) {
		return `must be a host below ${name}, such as bounce.${name}`;
	}
	return returnPathHost({name, return_path_domain: host}).length <= maxHostLength
		? null
		: `must be a host below ${name} of at most ${maxHostLength} characters: use one shorter than bounce.${name}`;
}

/** Returns the domain name in A-label form from a validated input. */
export function toDomainName(text: string): string {
	const name = parseDomain(text);
	if (name === null) {
		throw new Error('A domain passed the check of its format but cannot be parsed.');
	}
	return name;
}

/** A domain, and those of its keys that an operation created. */
type DomainWithKeys = {readonly domain: Domain; readonly keys: readonly DkimKey[]};

/** The installation's own names, which no domain may use for its links. */
type WithOwnHosts = {readonly ownHosts: readonly string[]};
type WithKeys = {readonly keys: SigningKeys};

const manages = {scope: 'domains:manage', role: 'admin'} as const;
const id = Type.String();
const host = Type.String({format: 'domain'});
const linkHost = {label: 'Link host', option: 'links <host>'};

const newDomain = Type.Object(
	{
		name: field(host, {label: 'Domain', description: 'The domain of `From` addresses, such as `shop.example`.'}),
		return_path_domain: field(Type.Optional(host), {
			label: 'Return path',
			option: 'return-path-domain <host>',
			description: 'The host for bounces, below the domain. Defaults to `bounce.` and the domain.',
		}),
		link_host: field(Type.Optional(host), {
			...linkHost,
			description: 'The host of links in its messages, below the domain. Defaults to that of the public URL.',
		}),
	},
	{additionalProperties: false, examples: [{name: 'shop.example', link_host: 'links.shop.example'}]},
);
type NewDomain = InputOf<typeof newDomain> & WithKeys & WithOwnHosts;

/**
 * Adds a domain with its two DKIM keys. Each key signs once its record is published, or immediately if an operator
 * verified a sender of the domain.
 */
export const addDomain = operation({
	...manages,
	seals: true,
	name: 'domain add',
	input: newDomain,
	async run(context, input: NewDomain): Promise<DomainWithKeys> {
		const added = await insertWithKeys(context, input);
		if (added) {
			return added;
		}
		const name = toDomainName(input.name);
		throw new Refused('conflict', {
			wrong: `the domain ${name} already exists`,
			next: `see mailctl domain show ${name}`,
			api: 'This workspace already has this domain.',
			page: `${name} already exists: open it in the list.`,
		});
	},
	audit: 'domain.added',
	entry: ({domain: {id: target, name}}) => ({target, detail: {name}}),
});

/** Inserts a domain with its keys. Returns `undefined` if the workspace already has it. */
export async function insertWithKeys(
	{trx, tools, vault, workspaceId}: OperationContext,
	{keys, ownHosts, ...input}: NewDomain,
): Promise<DomainWithKeys | undefined> {
	const name = toDomainName(input.name);
	const ownReturnPath = input.return_path_domain === undefined ? null : toDomainName(input.return_path_domain);
	const problem = returnPathProblem(name, ownReturnPath);
	if (problem !== null) {
		throw new Refused('unprocessable_entity', {wrong: `the return path ${problem}`, next: 'choose another host'});
	}
	const now = storeTime(tools.clock.now());
	const domain: Domain = {
		id: tools.newId('dom'),
		workspace_id: workspaceId,
		name,
		ownership_token: tools.random(20).toString('hex'),
		return_path_domain: ownReturnPath,
		return_path_at: null,
		link_host: input.link_host === undefined ? null : toDomainName(input.link_host),
		links_ok_at: null,
		state: 'pending',
		state_at: now,
		verified_at: null,
		first_verified_at: null,
		checked_at: null,
		failures: 0,
		created_at: now,
	};
	await checkRoom(trx, tools, workspaceId, 'domains');
	if (domain.link_host !== null) {
		await claimLinkHost(trx, domain, domain.link_host, ownHosts);
	}
	if (!(await insertDomain(trx, domain))) {
		return undefined;
	}
	const selectors = ['mc1', 'mc2'] as const;
	const rows = keyRows(tools, await vault(), {domainId: domain.id, keys, selectors, now, pendingAt: null});
	await insertDkimKeys(trx, rows);
	return {domain, keys: rows};
}

/** Changes or, with `null`, removes the link host of a domain. A new one is used once its record is published. */
export const updateDomain = operation({
	...manages,
	name: 'domain update',
	input: Type.Object(
		{
			id,
			link_host: field(optionalOrNull(host), {
				...linkHost,
				description: 'The host of links in its messages, below the domain; `null` for that of the public URL.',
			}),
		},
		{additionalProperties: false, examples: [{link_host: 'links.shop.example'}]},
	),
	async run({trx, workspaceId}, input: {readonly id: string; readonly link_host?: string | null} & WithOwnHosts) {
		const domain = await requireDomain(trx, workspaceId, input.id);
		const {link_host: requested = domain.link_host} = input;
		const link_host = requested === domain.link_host ? requested : requested && toDomainName(requested);
		if (link_host === domain.link_host) {
			return {domain, isChanged: false};
		}
		await claimLinkHost(trx, domain, link_host, input.ownHosts);
		await setLinkHost(trx, domain.id, link_host);
		return {domain: {...domain, link_host, links_ok_at: null, checked_at: null}, isChanged: true};
	},
	audit: 'domain.updated',
	entry: ({domain: {id: target, name, link_host}, isChanged}) =>
		isChanged ? {target, detail: {name, link_host}} : [],
});

/** Removes a domain with its keys and the workspace's inbound addresses there. */
export const removeDomain = operation({
	...manages,
	fresh: true,
	name: 'domain remove',
	input: Type.Object({id}),
	async run({trx, workspaceId}, {id: requested}): Promise<Domain> {
		const domain = await requireDomain(trx, workspaceId, requested);
		await checkUnused(trx, domain);
		await deleteInboundAt(trx, domain);
		await deleteDomain(trx, domain.id);
		return domain;
	},
	audit: 'domain.removed',
	entry: ({id: target, name}) => ({target, detail: {name}}),
});

const maxListedSenders = 5;

/** Throws `Refused` if a domain has senders, because their queued messages would be lost with it. */
export async function checkUnused(reader: Knex, {id: domainId, name}: Domain): Promise<void> {
	const senders = await listDomainSenders(reader, domainId);
	if (senders.length === 0) {
		return;
	}
	const rest = senders.length > maxListedSenders ? ['…'] : [];
	const listed = [...senders.slice(0, maxListedSenders), ...rest].join(', ');
	const api = `The domain has senders (${listed}). Remove them first.`;
	throw new Refused('conflict', {
		wrong: `${name} has ${senders.length === 1 ? 'a sender' : `${senders.length} senders`} (${listed})`,
		next: 'remove unused senders with mailctl sender remove ADDRESS',
		api,
		page: api,
	});
}

/** Starts a rotation with new keys that sign once they are published. The old ones sign until then (R5.3). */
export const rotateKeys = operation({
	...manages,
	fresh: true,
	seals: true,
	name: 'domain rotate-key',
	without: {apply: 'a file has no keys of domains'},
	input: Type.Object({id}),
	async run(
		{trx, tools, vault, workspaceId},
		{id: requested, keys, selector}: {readonly id: string; readonly selector?: string} & WithKeys,
	): Promise<DomainWithKeys> {
		const domain = await requireDomain(trx, workspaceId, requested);
		const known = await listDkimKeys(trx, domain.id);
		checkNotRotating(domain, known);
		const used = new Set(known.map(key => key.selector));
		const selectors = selector === undefined ? freeSelectors(used) : ([selector, `${selector}-ed25519`] as const);
		const clash = selectors.find(candidate => used.has(candidate));
		if (clash !== undefined) {
			const wrong = `${domain.name} already has a key ${clash}`;
			throw new Refused('conflict', {wrong, next: 'choose another --selector'});
		}
		const now = storeTime(tools.clock.now());
		const rows = keyRows(tools, await vault(), {domainId: domain.id, keys, selectors, now, pendingAt: now});
		await insertDkimKeys(trx, rows);
		return {domain, keys: rows};
	},
	audit: 'domain.key_rotated',
	entry: ({domain: {id: target, name}, keys}) => ({target, detail: {name, selectors: toSelectors(keys)}}),
});

function checkNotRotating({name}: Domain, keys: readonly DkimKey[]): void {
	const pending = keys.filter(isPending);
	if (pending.length > 0) {
		throw new Refused('conflict', {
			wrong: `new keys of ${name} are already waiting for DNS (${toSelectors(pending).join(', ')})`,
			next: 'publish them, or discard them with --cancel',
			api: 'A key rotation is already in progress: publish the records of the new keys.',
		});
	}
}

/** Cancels a rotation and deletes its keys. Returns their selectors. */
export const cancelRotation = operation({
	role: 'admin',
	fresh: true,
	name: 'domain rotate-key --cancel',
	without: {api: 'people decide what to do with unpublished keys', apply: 'a file has no keys of domains'},
	input: Type.Object({id}),
	async run({trx, workspaceId}, {id: requested}) {
		const domain = await requireDomain(trx, workspaceId, requested);
		const pending = (await listDkimKeys(trx, domain.id)).filter(isPending);
		if (pending.length === 0) {
			const wrong = `no new keys of ${domain.name} are waiting for DNS`;
			throw new Refused('conflict', {wrong, next: `see mailctl domain show ${domain.name}`});
		}
		await deleteDkimKeys(
			trx,
			pending.map(key => key.id),
		);
		return {domain, selectors: toSelectors(pending)};
	},
	audit: 'domain.rotation_cancelled',
	entry: ({domain: {id: target, name}, selectors}) => ({target, detail: {name, selectors}}),
});

const isPending = (key: DkimKey): boolean => keyState(key) === 'pending';
const toSelectors = (keys: readonly DkimKey[]): string[] => keys.map(({selector}) => selector);

/** Returns the domain. Throws `Refused` if the workspace does not have it. */
export async function requireDomain(reader: Knex, workspaceId: string, requested: string): Promise<Domain> {
	const domain = await findDomainById(reader, workspaceId, requested);
	return domain ?? notFound('domain', requested, {page: 'This workspace has no such domain.'});
}

import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import type {ActTools} from '../../mail/operator.ts';
import {bumpGeneration} from '../../store/changes.ts';
import type {Vault} from '../../store/sealed.ts';
import {recordAct} from '../audit/store.ts';
import {deleteInboundAt} from '../received/store.ts';
import {checkRoom} from '../workspaces/limits.ts';
import {returnPathHost} from './domain-records.ts';
import {claimLinkHost} from './link-host.ts';
import {keyRows, type SigningKeys} from './signing-keys.ts';
import {type DkimKey, type Domain, deleteDomain, insertDkimKeys, insertDomain, listDomainSenders} from './store.ts';

/** The domain of the sample sender. It is reserved (RFC 2606 §3), so its records cannot be published. */
export const sampleDomain = 'example.com';

type DomainInput = {
	readonly workspaceId: string;
	readonly name: string;
	/** The host of its own return path, which `returnPathFault` accepts. Default: `bounce.<name>`. */
	readonly returnPathDomain?: string | null;
	/** The host of links in its messages. Default: that of the public URL. */
	readonly links?: {readonly host: string; readonly ownHosts: readonly string[]} | null;
	readonly keys: SigningKeys;
};

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

/**
 * Adds a domain with its two DKIM keys. Each key signs once its record is published, or immediately if an operator
 * verified a sender of the domain. Returns `undefined` if the domain already exists. Throws `Refused` if the link host
 * is not allowed.
 */
export async function addDomain(
	trx: Knex.Transaction,
	tools: ActTools,
	vault: Vault,
	{workspaceId, name, returnPathDomain = null, links = null, keys}: DomainInput,
): Promise<{domain: Domain; keys: DkimKey[]} | undefined> {
	const problem = returnPathProblem(name, returnPathDomain);
	if (problem !== null) {
		throw new Error(`The return path of a domain ${problem}.`);
	}
	const {clock, newId, random} = tools;
	const now = storeTime(clock.now());
	const domain: Domain = {
		id: newId('dom'),
		workspace_id: workspaceId,
		name,
		ownership_token: random(20).toString('hex'),
		return_path_domain: returnPathDomain,
		return_path_at: null,
		link_host: links?.host ?? null,
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
	if (links !== null) {
		await claimLinkHost(trx, domain, links.host, links.ownHosts);
	}
	if (!(await insertDomain(trx, domain))) {
		return undefined;
	}
	const rows = keyRows({newId}, vault, {domainId: domain.id, keys, selectors: ['mc1', 'mc2'], now, pendingAt: null});
	await insertDkimKeys(trx, rows);
	await recordAct(trx, tools, {action: 'domain.added', workspaceId, target: domain.id, detail: {name}});
	await bumpGeneration(trx);
	return {domain, keys: rows};
}

/**
 * Removes a domain with its keys and the workspace's inbound addresses there. A domain with senders is not removed,
 * because their queued messages would be lost: then their addresses are returned, otherwise `undefined`.
 */
export async function removeDomain(
	trx: Knex.Transaction,
	tools: ActTools,
	domain: Domain,
): Promise<string[] | undefined> {
	const senders = await listDomainSenders(trx, domain.id);
	if (senders.length > 0) {
		return senders;
	}
	await deleteInboundAt(trx, domain);
	await deleteDomain(trx, domain.id);
	const {id, name, workspace_id: workspaceId} = domain;
	await recordAct(trx, tools, {action: 'domain.removed', workspaceId, target: id, detail: {name}});
	await bumpGeneration(trx);
	return undefined;
}

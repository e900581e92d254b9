import type {Knex} from 'knex';
import type {ActTools} from '../mail/operator.ts';
import {Refused} from '../ops/operation.ts';
import {recordAct} from '../store/audit.ts';
import {bumpGeneration} from '../store/changes.ts';
import {type Domain, findByLinkHost, setLinkHost} from '../store/domains.ts';
import {returnPathHost} from './domain-records.ts';

/**
 * What is wrong with the link host of a domain, a clause for people; null: nothing. Elsewhere it may be another
 * tenant's.
 */
export function linkHostFault(domain: Pick<Domain, 'name' | 'return_path_domain'>, host: string | null): string | null {
	if (host === null) {
		return null;
	}
	if (!host.endsWith(`.${domain.name}`)) {
		return `must be a host below ${domain.name}, such as links.${domain.name}`;
	}
	return host === returnPathHost(domain)
		? 'must not be the return path: that has an MX, and an alias has nothing else'
		: null;
}

/** Names that no domain may have for its links. */
type OwnHosts = readonly string[];

/**
 * Takes a host for a domain, from a domain that has not proved itself if this one has. Throws `Refused`. To be called
 * before anything else is written: two nodes at once would both find it free.
 */
export async function claimLinkHost(
	trx: Knex.Transaction,
	domain: Pick<Domain, 'id' | 'name' | 'return_path_domain' | 'verified_at'>,
	host: string,
	ownHosts: OwnHosts,
): Promise<void> {
	await bumpGeneration(trx);
	const fault = ownHosts.includes(host) ? 'must not be the name of this installation' : linkHostFault(domain, host);
	if (fault !== null) {
		throw new Refused('unprocessable_entity', {
			...{wrong: `the link host ${host} ${fault}`, next: 'choose another host'},
			api: `link_host ${fault}.`,
			page: `The link host ${fault}.`,
		});
	}
	for (const other of await findByLinkHost(trx, host)) {
		if (other.id === domain.id) {
			continue;
		}
		if (other.verified_at !== null || domain.verified_at === null) {
			const wrong = `the link host ${host} belongs to another domain`;
			const sentence = 'The link host belongs to another domain.';
			throw new Refused('conflict', {wrong, next: 'choose another host', api: sentence, page: sentence});
		}
		await setLinkHost(trx, other.id, null);
	}
}

/** Gives a domain another link host; null: none. It is used once DNS shows it. Throws `Refused`. */
export async function changeLinkHost(
	trx: Knex.Transaction,
	tools: ActTools,
	domain: Domain,
	host: string | null,
	ownHosts: OwnHosts,
): Promise<Domain> {
	if (host === domain.link_host) {
		return domain;
	}
	if (host === null) {
		await bumpGeneration(trx);
	} else {
		await claimLinkHost(trx, domain, host, ownHosts);
	}
	await setLinkHost(trx, domain.id, host);
	const {id, name, workspace_id: workspaceId} = domain;
	const detail = {name, link_host: host};
	await recordAct(trx, tools, {action: 'domain.updated', workspaceId, target: id, detail});
	return {...domain, link_host: host, links_ok_at: null, checked_at: null};
}

import type {Knex} from 'knex';
import {bumpGeneration} from '../../store/changes.ts';
import {Refused} from '../operation.ts';
import {returnPathHost} from './domain-records.ts';
import {type Domain, findByLinkHost, setLinkHost} from './store.ts';

/**
 * Returns the problem with the link host of a domain as a clause for people, or `null`. It must be below the domain,
 * because other hosts may belong to another tenant.
 */
export function linkHostProblem(
	domain: Pick<Domain, 'name' | 'return_path_domain'>,
	host: string | null,
): string | null {
	if (host === null) {
		return null;
	}
	if (!host.endsWith(`.${domain.name}`)) {
		return `must be a host below ${domain.name}, such as links.${domain.name}`;
	}
	return host === returnPathHost(domain)
		? 'must not be the return path, because a name with an MX cannot be an alias'
		: null;
}

/**
 * Reserves a link host for a domain; `null` needs no reservation. A verified domain can take it from an unverified one.
 * Throws `Refused` if the host is not allowed, is one of `ownHosts`, or belongs to another domain. Must be called
 * before the transaction writes anything else: its first statement makes a second node wait, which would otherwise find
 * the host free too.
 */
export async function claimLinkHost(
	trx: Knex.Transaction,
	domain: Pick<Domain, 'id' | 'name' | 'return_path_domain' | 'verified_at'>,
	host: string | null,
	ownHosts: readonly string[],
): Promise<void> {
	await bumpGeneration(trx);
	if (host === null) {
		return;
	}
	const problem = ownHosts.includes(host)
		? 'must not be the name of this installation'
		: linkHostProblem(domain, host);
	if (problem !== null) {
		throw new Refused('unprocessable_entity', {
			wrong: `the link host ${host} ${problem}`,
			next: 'choose another host',
			api: `link_host ${problem}.`,
			page: `The link host ${problem}.`,
		});
	}
	for (const other of await findByLinkHost(trx, host)) {
		if (other.id === domain.id) {
			continue;
		}
		if (other.verified_at !== null || domain.verified_at === null) {
			const wrong = `the link host ${host} belongs to another domain`;
			const api = 'The link host belongs to another domain.';
			throw new Refused('conflict', {wrong, next: 'choose another host', api, page: api});
		}
		await setLinkHost(trx, other.id, null);
	}
}

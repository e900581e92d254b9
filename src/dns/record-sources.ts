import {Resolver as SystemResolver} from 'node:dns/promises';
import {isIP} from 'node:net';
import type {Clock} from '../kit/clock.ts';
import type {Resolver} from '../net/dns.ts';
import {isPublicAddress} from '../net/public-address.ts';
import {type CancellableResolver, createResolver} from './resolver.ts';

type RecordSourcesOptions = {
	/** `ip[:port]`; empty: the system's. */
	readonly servers: readonly string[];
	/** For a lab: a zone's servers may be on addresses that are not public. */
	readonly allowPrivate: boolean;
	readonly clock: Clock;
};

const timeoutMs = 5000;
const dnsPort = 53;

/** Whom to ask whether records are published: each server for itself, and the servers of a domain's own zone. For one check. */
export function openRecordSources({servers, allowPrivate, clock}: RecordSourcesOptions): {
	readonly resolvers: readonly Resolver[];
	readonly authority: (domain: string) => Promise<Resolver | null>;
	/** Ends what is still being asked. */
	readonly close: () => void;
} {
	const alone = servers.length === 0 ? [[]] : servers.map(server => [server]);
	const resolvers = alone.map(each => createResolver({servers: each, timeoutMs, tries: 1, clock}));
	const authority = createAuthority({servers, timeoutMs, port: dnsPort, allowPrivate, clock});
	return {
		resolvers,
		authority: authority.find,
		close() {
			for (const {cancel} of [...resolvers, authority]) {
				cancel();
			}
		},
	};
}

type AuthorityOptions = {
	/** Whom the zone's servers are asked of: `ip[:port]`; empty: the system's. */
	readonly servers: readonly string[];
	readonly timeoutMs: number;
	/** Where the zone's servers listen. */
	readonly port: number;
	/** For a lab: servers on addresses that are not public. Else a foreign zone could point into the own network. */
	readonly allowPrivate: boolean;
	readonly clock: Clock;
};

const leastLabels = 2;
const mostServers = 3;

/**
 * Finds the servers of a domain's own zone, which answer what is published now. Null where they cannot be found or do
 * not answer, as behind a firewall that lets only the resolver out.
 */
export function createAuthority({servers, timeoutMs, port, allowPrivate, clock}: AuthorityOptions) {
	const system = new SystemResolver({timeout: timeoutMs, tries: 1});
	const found = new Set<CancellableResolver>();
	if (servers.length > 0) {
		system.setServers([...servers]);
	}

	async function nameServers(domain: string): Promise<string[]> {
		const labels = domain.split('.');
		for (let from = 0; labels.length - from >= leastLabels; from++) {
			try {
				const hosts = await system.resolveNs(labels.slice(from).join('.'));
				return hosts.slice(0, mostServers);
			} catch (error) {
				if (!['ENODATA', 'ENOTFOUND'].includes((error as NodeJS.ErrnoException).code ?? '')) {
					return [];
				}
			}
		}
		return [];
	}

	async function find(domain: string): Promise<Resolver | null> {
		const hosts = await nameServers(domain);
		const addresses = await Promise.all(
			hosts.map(async host =>
				(await Promise.all([orNone(system.resolve4(host)), orNone(system.resolve6(host))])).flat(),
			),
		);
		const allowed = addresses
			.map(each => each.find(address => allowPrivate || isPublicAddress(address)))
			.filter(address => address !== undefined)
			.map(address => (isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`));
		if (allowed.length === 0) {
			return null;
		}
		const resolver = createResolver({servers: allowed, timeoutMs, tries: 1, clock});
		found.add(resolver);
		return (await resolver.txt(domain, true)).kind === 'failed' ? null : resolver;
	}

	return {
		find,
		/** Ends what is still being asked, also of the servers that were found. */
		cancel(): void {
			system.cancel();
			for (const resolver of found) {
				resolver.cancel();
			}
		},
	};
}

async function orNone(asked: Promise<string[]>): Promise<string[]> {
	return await asked.catch(() => []);
}

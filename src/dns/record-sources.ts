import type {Clock} from '../kit/clock.ts';
import type {Resolver} from '../net/dns.ts';
import {createAuthority} from './authority.ts';
import {createResolver} from './resolver.ts';

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

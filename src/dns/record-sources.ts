import type {Clock} from '../mail/clock.ts';
import type {Resolver} from '../mail/dns.ts';
import {createAuthority} from './authority.ts';
import {createResolver} from './resolver.ts';

export type RecordSourcesOptions = {
	/** `ip[:port]`; empty: the system's. */
	readonly servers: readonly string[];
	/** For a lab: a zone's servers may be on addresses that are not public. */
	readonly allowPrivate: boolean;
	readonly clock: Clock;
};

const timeoutMs = 5000;
const dnsPort = 53;

/** Whom to ask whether records are published: each server for itself, and the servers of the domain's own zone. */
export function createRecordSources({servers, allowPrivate, clock}: RecordSourcesOptions): {
	readonly resolvers: readonly Resolver[];
	readonly authority: (domain: string) => Promise<Resolver | null>;
} {
	const alone = servers.length === 0 ? [[]] : servers.map(server => [server]);
	return {
		resolvers: alone.map(each => createResolver({servers: each, timeoutMs, tries: 1, clock})),
		authority: createAuthority({servers, timeoutMs, port: dnsPort, allowPrivate, clock}),
	};
}

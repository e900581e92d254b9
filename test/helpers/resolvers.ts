import {systemClock} from '../../src/kit/clock.ts';
import type {Resolver} from '../../src/net/dns.ts';
import {createResolver} from '../../src/net/resolver.ts';
import {startFakeDns, type Zone} from './fake-dns.ts';
import type {Teardown} from './fake-mx.ts';

/** A resolver that asks a DNS server of its own, which answers from the zone. */
export async function resolverOf(t: Teardown, zone: Zone, timeoutMs = 60_000): Promise<Resolver> {
	const {server} = await startFakeDns(t, zone);
	return createResolver({servers: [server], timeoutMs, tries: 1, clock: systemClock});
}

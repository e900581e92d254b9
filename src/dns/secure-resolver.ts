import type * as dns from 'dns-packet';
import {LRUCache} from 'lru-cache';
import {atMost} from '../kit/at-most.ts';
import type {Clock} from '../kit/clock.ts';
import type {AskSecurely, SecureAnswer, SecureResolver, TlsaRecord} from '../net/dns.ts';
import {type QueryType, query, type Server} from './query.ts';

type SecureResolverOptions = {
	/** `ip:port` or `[ip6]:port` of resolvers that validate, asked in turn until one answers. */
	readonly servers: readonly string[];
	/** One query to one server, milliseconds. */
	readonly timeoutMs: number;
	/** Times that each server is asked. */
	readonly tries: number;
	readonly clock: Clock;
};

const shortestTtl = 60;
const longestTtl = 3600;
const mostRecords = 100;
const mostNames = 20_000;
const longestAliases = 10;

type Kept = {readonly until: number; readonly answer: SecureAnswer<unknown>};

/**
 * A caching resolver that says whether DNSSEC secures an answer; Node's own resolver drops the AD bit. The servers
 * validate and we trust them, so the connection to them must be safe: the same machine or network.
 */
export function createSecureResolver(options: SecureResolverOptions): SecureResolver {
	const {timeoutMs, tries, clock} = options;
	const servers = options.servers.map(parseServer);
	const known = new LRUCache<string, Kept>(atMost(mostNames));
	const asked = new Map<string, Promise<SecureAnswer<unknown>>>();

	async function askServers(name: string, type: QueryType): Promise<dns.DecodedPacket | {readonly code: string}> {
		let code = 'ESERVFAIL';
		for (let n = 0; n < tries * servers.length; n++) {
			try {
				const packet = await query(servers[n % servers.length] as Server, name, type, timeoutMs);
				if (rcodeOf(packet) === 'NOERROR' || rcodeOf(packet) === 'NXDOMAIN') {
					return packet;
				}

				code = `E${rcodeOf(packet)}`;
			} catch (error) {
				code = (error as NodeJS.ErrnoException).code ?? 'EUNKNOWN';
			}
		}

		return {code};
	}

	async function ask<T>(name: string, type: QueryType, read: (data: never) => T): Promise<SecureAnswer<T>> {
		const packet = await askServers(name, type);
		if ('code' in packet) {
			return {kind: 'failed', code: packet.code};
		}

		const {records, canonicalName, ttl} = recordsOf(packet, name, type, read);
		const nothing = rcodeOf(packet) === 'NXDOMAIN' ? 'nxdomain' : 'nodata';
		const kind = records.length > 0 ? 'found' : nothing;
		const answer = {kind, authentic: packet.flag_ad === true, records, canonicalName} as const;
		const seconds = Math.min(Math.max(ttl, shortestTtl), longestTtl);
		known.set(`${type} ${name}`, {until: clock.monotonic() + seconds * 1000, answer});
		return answer;
	}

	function recall<T>(type: QueryType, read: (data: never) => T): AskSecurely<T> {
		return name => {
			const key = `${type} ${name}`;
			const kept = known.get(key);
			if (kept !== undefined && kept.until > clock.monotonic()) {
				return Promise.resolve(kept.answer as SecureAnswer<T>);
			}

			const running = asked.get(key) ?? ask(name, type, read).finally(() => asked.delete(key));
			asked.set(key, running);
			return running as Promise<SecureAnswer<T>>;
		};
	}

	return {
		mx: recall('MX', ({exchange}: dns.MxData) => bare(exchange)),
		a: recall('A', (address: string) => address),
		aaaa: recall('AAAA', (address: string) => address),
		tlsa: recall('TLSA', tlsaRecord),
	};
}

/** dns-packet has the code's name beside the flags, but not in its types. */
function rcodeOf(packet: dns.DecodedPacket): string {
	return (packet as {readonly rcode?: string}).rcode ?? '';
}

const bare = (name: string): string => name.toLowerCase().replace(/\.$/, '');

function tlsaRecord({usage, selector, matchingType: matching, certificate}: dns.TlsaData): TlsaRecord {
	return {usage, selector, matching, data: certificate.toString('hex')};
}

/** The records of the name, through its aliases; without records of other names in the packet. */
function recordsOf<T>(
	{answers = []}: dns.DecodedPacket,
	name: string,
	type: QueryType,
	read: (data: never) => T,
): {records: T[]; canonicalName: string; ttl: number} {
	let owner = bare(name);
	let ttl = longestTtl;
	for (let depth = 0; depth < longestAliases; depth++) {
		const alias = answers.find(answer => answer.type === 'CNAME' && bare(answer.name) === owner);
		if (alias?.type !== 'CNAME') {
			break;
		}

		owner = bare(alias.data);
		ttl = Math.min(ttl, alias.ttl ?? 0);
	}

	const records: T[] = [];
	for (const answer of answers) {
		if (answer.type === type && bare(answer.name) === owner && records.length < mostRecords) {
			records.push(read(answer.data as never));
			ttl = Math.min(ttl, 'ttl' in answer ? (answer.ttl ?? 0) : 0);
		}
	}

	return {records, canonicalName: owner, ttl: records.length === 0 ? shortestTtl : ttl};
}

function parseServer(text: string): Server {
	const colon = text.lastIndexOf(':');
	return {address: text.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(text.slice(colon + 1))};
}

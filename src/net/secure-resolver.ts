import {randomInt} from 'node:crypto';
import {createSocket} from 'node:dgram';
import {connect, isIPv6} from 'node:net';
import * as dns from 'dns-packet';
import type {Clock} from '../kit/clock.ts';
import type {AskSecurely, SecureAnswer, SecureResolver, TlsaRecord} from './dns.ts';
import {AnswerCache, maxTtl, minTtl} from './resolver.ts';

type SecureResolverOptions = {
	/** Validating resolvers as `ip:port` or `[ip6]:port`, tried in turn until one responds. */
	readonly servers: readonly string[];
	/** The time limit of one query to one server, in milliseconds. */
	readonly timeoutMs: number;
	/** How many times each server is queried. */
	readonly tries: number;
	readonly clock: Clock;
};

const maxRecords = 100;
const maxAliases = 10;

/**
 * Creates a caching resolver that reports whether DNSSEC secures an answer. Node's own resolver drops the AD bit. The
 * servers do the validation and are trusted, so the path to them must be secure: the same machine or network.
 */
export function createSecureResolver(options: SecureResolverOptions): SecureResolver {
	const {timeoutMs, tries, clock} = options;
	const servers = options.servers.map(parseServer);
	const cache = new AnswerCache(clock);

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

	function recall<T>(type: QueryType, read: (data: never) => T): AskSecurely<T> {
		return name =>
			cache.recall<SecureAnswer<T>>(`${type} ${name}`, async () => {
				const packet = await askServers(name, type);
				if ('code' in packet) {
					return {answer: {kind: 'failed', code: packet.code}};
				}
				const {records, canonicalName, ttl} = toRecords(packet, name, type, read);
				const emptyKind = rcodeOf(packet) === 'NXDOMAIN' ? 'nxdomain' : 'nodata';
				const kind = records.length > 0 ? 'found' : emptyKind;
				return {answer: {kind, isAuthentic: packet.flag_ad === true, records, canonicalName}, ttl};
			});
	}

	return {
		mx: recall('MX', ({exchange}: dns.MxData) => bare(exchange)),
		a: recall('A', (address: string) => address),
		aaaa: recall('AAAA', (address: string) => address),
		tlsa: recall('TLSA', tlsaRecord),
	};
}

/** dns-packet returns the response code's name, but its types omit it. */
function rcodeOf(packet: dns.DecodedPacket): string {
	return (packet as {readonly rcode?: string}).rcode ?? '';
}

const bare = (name: string): string => name.toLowerCase().replace(/\.$/, '');

function tlsaRecord({usage, selector, matchingType: matching, certificate}: dns.TlsaData): TlsaRecord {
	return {usage, selector, matching, data: certificate.toString('hex')};
}

/** Returns the name's records, following aliases. Records of other names in the packet are ignored. */
function toRecords<T>(
	{answers = []}: dns.DecodedPacket,
	name: string,
	type: QueryType,
	read: (data: never) => T,
): {records: T[]; canonicalName: string; ttl: number} {
	let owner = bare(name);
	let ttl = maxTtl;
	for (let depth = 0; depth < maxAliases; depth++) {
		const alias = answers.find(answer => answer.type === 'CNAME' && bare(answer.name) === owner);
		if (alias?.type !== 'CNAME') {
			break;
		}

		owner = bare(alias.data);
		ttl = Math.min(ttl, alias.ttl ?? 0);
	}

	const records: T[] = [];
	for (const answer of answers) {
		if (answer.type === type && bare(answer.name) === owner && records.length < maxRecords) {
			records.push(read(answer.data as never));
			ttl = Math.min(ttl, 'ttl' in answer ? (answer.ttl ?? 0) : 0);
		}
	}

	return {records, canonicalName: owner, ttl: records.length === 0 ? minTtl : ttl};
}

function parseServer(text: string): Server {
	const colon = text.lastIndexOf(':');
	return {address: text.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(text.slice(colon + 1))};
}

type Server = {readonly address: string; readonly port: number};

type QueryType = 'MX' | 'A' | 'AAAA' | 'TLSA';

/** The largest payload that crosses any network unfragmented (DNS flag day 2020). */
const udpPayloadSize = 1232;

/**
 * Sends one query with the DO bit to a server over UDP, and over TCP if the answer is truncated. Rejects after the time
 * limit. Packets that do not answer the question are skipped, since anyone can send them.
 */
async function query(server: Server, name: string, type: QueryType, limitMs: number): Promise<dns.DecodedPacket> {
	const id = randomInt(0x1_00_00);
	const bytes = dns.encode({
		type: 'query',
		id,
		flags: dns.RECURSION_DESIRED,
		questions: [{type, name}],
		additionals: [
			{
				type: 'OPT',
				name: '.',
				udpPayloadSize,
				extendedRcode: 0,
				ednsVersion: 0,
				flags: dns.DNSSEC_OK,
				flag_do: true,
				options: [],
			},
		],
	});
	const read = (message: Buffer) => readAnswer(message, {id, name, type});
	const signal = AbortSignal.timeout(limitMs);
	const answer = await overUdp(server, bytes, read, signal);
	return answer.flag_tc ? await overTcp(server, bytes, read, signal) : answer;
}

type Read = (message: Buffer) => dns.DecodedPacket | null;
type Question = {readonly id: number; readonly name: string; readonly type: QueryType};

/** Returns the message if it answers this question, or `null`. */
export function readAnswer(message: Buffer, {id, name, type}: Question): dns.DecodedPacket | null {
	try {
		const answer = dns.decode(message);
		const [question, ...others] = answer.questions ?? [];
		const isMatch =
			answer.type === 'response' &&
			answer.id === id &&
			others.length === 0 &&
			question?.type === type &&
			question.class === 'IN' &&
			question.name.toLowerCase() === name.toLowerCase();
		return isMatch ? answer : null;
	} catch {
		return null; // Not a DNS message.
	}
}

function overUdp(
	{address, port}: Server,
	bytes: Uint8Array,
	read: Read,
	signal: AbortSignal,
): Promise<dns.DecodedPacket> {
	return new Promise((resolve, reject) => {
		const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
		const close = (finish: () => void) => {
			signal.removeEventListener('abort', onTimeout);
			socket.removeAllListeners();
			socket.on('error', () => undefined);
			socket.close();
			finish();
		};
		const onTimeout = () => close(() => reject(noAnswer()));
		signal.addEventListener('abort', onTimeout);
		socket.on('error', error => close(() => reject(error)));
		socket.on('message', message => {
			const answer = read(message);
			if (answer !== null) {
				close(() => resolve(answer));
			}
		});
		// A connected socket, so the system drops packets from other addresses.
		socket.once('connect', () => socket.send(bytes));
		socket.connect(port, address);
	});
}

function overTcp({address, port}: Server, bytes: Buffer, read: Read, signal: AbortSignal): Promise<dns.DecodedPacket> {
	return new Promise((resolve, reject) => {
		const socket = connect({host: address, port, signal});
		const size = Buffer.alloc(2);
		size.writeUInt16BE(bytes.length);
		socket.write(Buffer.concat([size, bytes]));
		let received = Buffer.alloc(0);
		socket.on('data', chunk => {
			received = Buffer.concat([received, chunk]);
			if (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
				const answer = read(received.subarray(2, 2 + received.readUInt16BE(0)));
				socket.destroy();
				if (answer === null) {
					reject(Object.assign(new Error('the answer is not a DNS message'), {code: 'EBADRESP'}));
				} else {
					resolve(answer);
				}
			}
		});
		socket.on('error', error => reject(signal.aborted ? noAnswer() : error));
		socket.on('close', () => reject(noAnswer()));
	});
}

function noAnswer(): Error {
	return Object.assign(new Error('no answer'), {code: 'ETIMEOUT'});
}

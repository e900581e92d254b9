import {createSocket, type Socket as UdpSocket} from 'node:dgram';
import {once} from 'node:events';
import {type AddressInfo, createServer, type Server, type Socket} from 'node:net';
import * as dns from 'dns-packet';
import type {TlsaRecord} from '../../src/net/dns.ts';
import type {Teardown} from './fake-mx.ts';
import {loopbackAddress} from './loopback.ts';

export type DnsFault = 'nxdomain' | 'servfail' | 'refused' | 'timeout' | 'garbage' | 'truncated';

export type DnsRecords = {
	readonly mx?: ReadonlyArray<readonly [preference: number, exchange: string]>;
	readonly a?: readonly string[];
	readonly aaaa?: readonly string[];
	readonly txt?: ReadonlyArray<string | readonly string[]>;
	readonly cname?: string;
	readonly ptr?: readonly string[];
	readonly ns?: readonly string[];
	readonly tlsa?: readonly TlsaRecord[];
	/** DNSSEC vouches for it and for what is not there below it: the AD bit, to who asks with the DO bit. */
	readonly signed?: boolean;
	/** Seconds; default 300. */
	readonly ttl?: number;
	/** What happens to queries of one type. */
	readonly fail?: {readonly [type: string]: DnsFault};
};

/** Names in lower case without the last dot. A name that is not there does not exist; `{}` exists and has nothing. */
export type Zone = Record<string, DnsRecords | DnsFault>;

export type FakeDns = {
	/** `ip:port`, for MAILCTL_DNS_SERVERS. */
	readonly server: string;
	/** May be changed while it runs. */
	readonly zone: Zone;
	/** `MX example.test`, in order of arrival; a repetition of a query is not counted. */
	readonly queries: string[];
	readonly close: () => Promise<void>;
};

/** What was asked, and the ids of the queries that asked it. */
type Heard = {readonly queries: string[]; readonly seen: Set<string>};

const codes: Partial<Record<DnsFault, number>> = {servfail: 2, nxdomain: 3, refused: 5};
const maxUdpBytes = 512;

/** Starts a DNS server on a loopback address, UDP and TCP on the same port; closed by the test's end. */
export async function startFakeDns(t: Teardown | null, zone: Zone): Promise<FakeDns> {
	const queries: string[] = [];
	const heard: Heard = {queries, seen: new Set()};
	const host = loopbackAddress();
	const udp = createSocket('udp4');
	const sockets = new Set<Socket>();
	const tcp = createServer(socket => {
		sockets.add(socket);
		socket.on('close', () => sockets.delete(socket));
		socket.on('error', () => socket.destroy());
		let rest = Buffer.alloc(0);
		socket.on('data', chunk => {
			rest = Buffer.concat([rest, chunk]);
			while (rest.length >= 2 && rest.length >= 2 + rest.readUInt16BE(0)) {
				const length = rest.readUInt16BE(0);
				const reply = respond(rest.subarray(2, 2 + length), zone, heard, false);
				rest = rest.subarray(2 + length);
				if (reply !== null) {
					const size = Buffer.alloc(2);
					size.writeUInt16BE(reply.length);
					socket.write(Buffer.concat([size, reply]));
				}
			}
		});
	});

	udp.on('message', (message, {port: to, address}) => {
		const reply = respond(message, zone, heard, true);
		if (reply !== null) {
			udp.send(reply, to, address);
		}
	});
	const port = await listenTogether(tcp, udp, host);

	async function close(): Promise<void> {
		for (const socket of sockets) {
			socket.destroy();
		}

		tcp.close();
		udp.close();
		await once(tcp, 'close');
	}

	t?.teardown(close);
	return {server: `${host}:${port}`, zone, queries, close};
}

/** Finds a port that is free for both; another program's socket may hold the UDP one of it. */
async function listenTogether(tcp: Server, udp: UdpSocket, host: string): Promise<number> {
	for (let left = 20; ; left--) {
		tcp.listen(0, host);
		await once(tcp, 'listening');
		const {port} = tcp.address() as AddressInfo;
		try {
			udp.bind(port, host);
			await once(udp, 'listening');
			return port;
		} catch (error) {
			tcp.close();
			await once(tcp, 'close');
			if (left === 0) {
				throw error;
			}
		}
	}
}

function respond(message: Buffer, zone: Zone, {queries, seen}: Heard, udp: boolean): Buffer | null {
	const query = dns.decode(message);
	const [question] = query.questions ?? [];
	if (question === undefined) {
		return null;
	}

	const name = question.name.toLowerCase().replace(/\.$/, '');
	const asked = `${query.id} ${question.type} ${name}`;
	if (!seen.has(asked)) {
		seen.add(asked);
		queries.push(`${question.type} ${name}`);
	}

	const {fault, answers, signed} = look(name, question.type, zone);
	const asksForProof = (query.additionals ?? []).some(record => record.type === 'OPT' && record.flag_do);
	const proved = signed && asksForProof ? dns.AUTHENTIC_DATA : 0;
	if (fault === 'timeout') {
		return null;
	}

	if (fault === 'garbage') {
		return Buffer.concat([message.subarray(0, 2), Buffer.from('not a DNS message')]);
	}

	const base: dns.Packet = {
		type: 'response',
		...(query.id === undefined ? {} : {id: query.id}),
		questions: [question],
	};
	const flags = dns.RECURSION_DESIRED | dns.RECURSION_AVAILABLE | proved;
	const reply = dns.encode({...base, flags: flags | (fault === null ? 0 : (codes[fault] ?? 0)), answers});
	return udp && (fault === 'truncated' || reply.length > maxUdpBytes)
		? dns.encode({...base, flags: flags | dns.TRUNCATED_RESPONSE, answers: []})
		: reply;
}

type Look = {readonly fault: DnsFault | null; readonly answers: dns.Answer[]; readonly signed: boolean};

/** The records of a name, through its aliases. */
function look(name: string, type: string, zone: Zone): Look {
	const answers: dns.Answer[] = [];
	let owner = name;
	let signed = true;
	for (let depth = 0; depth < 8; depth++) {
		const entry = Object.hasOwn(zone, owner) ? zone[owner] : undefined;
		signed &&= isSigned(owner, zone);
		if (entry === undefined || typeof entry === 'string') {
			return {fault: entry ?? 'nxdomain', answers, signed};
		}

		const ttl = entry.ttl ?? 300;
		if (entry.cname === undefined) {
			answers.push(...recordsOf(owner, type, entry, ttl));
			return {fault: entry.fail?.[type] ?? null, answers, signed};
		}

		answers.push({type: 'CNAME', name: owner, ttl, data: entry.cname});
		if (type === 'CNAME') {
			return {fault: null, answers, signed};
		}

		owner = entry.cname.toLowerCase();
	}

	return {fault: 'servfail', answers: [], signed: false};
}

/** As the name says, else the nearest one above it that is there. */
function isSigned(name: string, zone: Zone): boolean {
	for (let owner = name; owner !== ''; owner = owner.split('.').slice(1).join('.')) {
		const entry = Object.hasOwn(zone, owner) ? zone[owner] : undefined;
		if (typeof entry === 'object') {
			return entry.signed === true;
		}
	}

	return false;
}

function recordsOf(name: string, type: string, entry: DnsRecords, ttl: number): dns.Answer[] {
	switch (type) {
		case 'MX':
			return (entry.mx ?? []).map(([preference, exchange]) => ({type, name, ttl, data: {preference, exchange}}));
		case 'A':
			return (entry.a ?? []).map(data => ({type, name, ttl, data}));
		case 'AAAA':
			return (entry.aaaa ?? []).map(data => ({type, name, ttl, data}));
		case 'PTR':
			return (entry.ptr ?? []).map(data => ({type, name, ttl, data}));
		case 'TXT':
			return (entry.txt ?? []).map(text => ({
				type,
				name,
				ttl,
				data: typeof text === 'string' ? text : [...text],
			}));
		case 'NS':
			return (entry.ns ?? []).map(data => ({type, name, ttl, data}));
		case 'TLSA':
			return (entry.tlsa ?? []).map(({usage, selector, matching: matchingType, data}) => {
				const certificate = Buffer.from(data, 'hex');
				return {type, name, ttl, data: {usage, selector, matchingType, certificate}};
			});
		default:
			return [];
	}
}

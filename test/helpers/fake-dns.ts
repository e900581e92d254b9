import {createSocket} from 'node:dgram';
import {once} from 'node:events';
import {type AddressInfo, createServer, type Socket} from 'node:net';
import * as dns from 'dns-packet';
import type {Teardown} from './fake-mx.ts';

export type DnsFault = 'nxdomain' | 'servfail' | 'refused' | 'timeout' | 'garbage' | 'truncated';

export type DnsRecords = {
	readonly mx?: ReadonlyArray<readonly [preference: number, exchange: string]>;
	readonly a?: readonly string[];
	readonly aaaa?: readonly string[];
	readonly txt?: ReadonlyArray<string | readonly string[]>;
	readonly cname?: string;
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
	/** `MX example.test`, in order of arrival. */
	readonly queries: string[];
	readonly close: () => Promise<void>;
};

const codes: Partial<Record<DnsFault, number>> = {servfail: 2, nxdomain: 3, refused: 5};
const longestUdp = 512;

/** Starts a DNS server on 127.0.0.1, UDP and TCP on the same port; closed by the test's end. */
export async function startFakeDns(t: Teardown | null, zone: Zone): Promise<FakeDns> {
	const queries: string[] = [];
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
				const reply = respond(rest.subarray(2, 2 + length), zone, queries, false);
				rest = rest.subarray(2 + length);
				if (reply !== null) {
					const size = Buffer.alloc(2);
					size.writeUInt16BE(reply.length);
					socket.write(Buffer.concat([size, reply]));
				}
			}
		});
	});

	tcp.listen(0, '127.0.0.1');
	await once(tcp, 'listening');
	const {port} = tcp.address() as AddressInfo;
	udp.on('message', (message, {port: to, address}) => {
		const reply = respond(message, zone, queries, true);
		if (reply !== null) {
			udp.send(reply, to, address);
		}
	});
	udp.bind(port, '127.0.0.1');
	await once(udp, 'listening');

	async function close(): Promise<void> {
		for (const socket of sockets) {
			socket.destroy();
		}

		tcp.close();
		udp.close();
		await once(tcp, 'close');
	}

	t?.teardown(close);
	return {server: `127.0.0.1:${port}`, zone, queries, close};
}

function respond(message: Buffer, zone: Zone, queries: string[], udp: boolean): Buffer | null {
	const query = dns.decode(message);
	const [question] = query.questions ?? [];
	if (question === undefined) {
		return null;
	}

	const name = question.name.toLowerCase().replace(/\.$/, '');
	queries.push(`${question.type} ${name}`);
	const {fault, answers} = look(name, question.type, zone);
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
	const flags = dns.RECURSION_DESIRED | dns.RECURSION_AVAILABLE;
	const reply = dns.encode({...base, flags: flags | (fault === null ? 0 : (codes[fault] ?? 0)), answers});
	return udp && (fault === 'truncated' || reply.length > longestUdp)
		? dns.encode({...base, flags: flags | dns.TRUNCATED_RESPONSE, answers: []})
		: reply;
}

/** The records of a name, through its aliases. */
function look(name: string, type: string, zone: Zone): {fault: DnsFault | null; answers: dns.Answer[]} {
	const answers: dns.Answer[] = [];
	let owner = name;
	for (let depth = 0; depth < 8; depth++) {
		const entry = Object.hasOwn(zone, owner) ? zone[owner] : undefined;
		if (entry === undefined || typeof entry === 'string') {
			return {fault: entry ?? 'nxdomain', answers};
		}

		const ttl = entry.ttl ?? 300;
		if (entry.cname === undefined) {
			answers.push(...recordsOf(owner, type, entry, ttl));
			return {fault: entry.fail?.[type] ?? null, answers};
		}

		answers.push({type: 'CNAME', name: owner, ttl, data: entry.cname});
		owner = entry.cname.toLowerCase();
	}

	return {fault: 'servfail', answers: []};
}

function recordsOf(name: string, type: string, entry: DnsRecords, ttl: number): dns.Answer[] {
	switch (type) {
		case 'MX':
			return (entry.mx ?? []).map(([preference, exchange]) => ({type, name, ttl, data: {preference, exchange}}));
		case 'A':
			return (entry.a ?? []).map(data => ({type, name, ttl, data}));
		case 'AAAA':
			return (entry.aaaa ?? []).map(data => ({type, name, ttl, data}));
		case 'TXT':
			return (entry.txt ?? []).map(text => ({type, name, ttl, data: typeof text === 'string' ? text : [...text]}));
		default:
			return [];
	}
}

import {randomInt} from 'node:crypto';
import {createSocket} from 'node:dgram';
import {connect, isIPv6} from 'node:net';
import * as dns from 'dns-packet';

export type Server = {readonly address: string; readonly port: number};

export type QueryType = 'MX' | 'A' | 'AAAA' | 'TLSA';

/** No larger than what crosses any network in one piece (DNS flag day 2020). */
const udpPayloadSize = 1232;

/**
 * Asks one server for one type of record, with the DO bit, over UDP, or over TCP if the answer is cut; rejects after
 * the time given. Skips packets that do not answer the question: any host may send them.
 */
export async function query(
	server: Server,
	name: string,
	type: QueryType,
	limitMs: number,
): Promise<dns.DecodedPacket> {
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

/** The answer to this very question, null: something else. */
export function readAnswer(message: Buffer, {id, name, type}: Question): dns.DecodedPacket | null {
	try {
		const answer = dns.decode(message);
		const [asked, ...more] = answer.questions ?? [];
		const fits =
			answer.type === 'response' &&
			answer.id === id &&
			more.length === 0 &&
			asked?.type === type &&
			asked.class === 'IN' &&
			asked.name.toLowerCase() === name.toLowerCase();
		return fits ? answer : null;
	} catch {
		return null; // No DNS message.
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
		const end = (finish: () => void) => {
			signal.removeEventListener('abort', late);
			socket.removeAllListeners();
			socket.on('error', () => undefined);
			socket.close();
			finish();
		};
		const late = () => end(() => reject(noAnswer()));
		signal.addEventListener('abort', late);
		socket.on('error', error => end(() => reject(error)));
		socket.on('message', message => {
			const answer = read(message);
			if (answer !== null) {
				end(() => resolve(answer));
			}
		});
		// Connected: the system drops what comes from elsewhere.
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

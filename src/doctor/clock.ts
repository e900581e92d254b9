import {createSocket} from 'node:dgram';
import {isIP, isIPv6} from 'node:net';
import {type Clock, noticeableSkewMs} from '../kit/clock.ts';
import type {Resolver} from '../net/dns.ts';
import type {Store} from '../store/store.ts';
import {type Check, fail, ok, warn} from './finding.ts';

const keepTime = 'set the clock and keep it set: install chrony or enable systemd-timesyncd';
const answerLimitMs = 5000;
const noticeableMs = 5000;
const tooMuchMs = 60_000;
/** Seconds from 1900, where NTP counts from, to 1970. */
const epochOffset = 2_208_988_800;

export type TimeServer = {readonly host: string; readonly port: number};

/** How far the machine's clock is from a time server's (SNTP, RFC 5905 §14). */
export function clockCheck({clock, resolver, server}: {clock: Clock; resolver: Resolver; server: TimeServer}): Check {
	return {
		name: 'clock',
		why: 'Signatures, links and API answers carry the time; receivers doubt mail from the future or the past.',
		async look() {
			const skew = await clockSkew(clock, resolver, server);
			if (typeof skew === 'string') {
				return [warn(`not known: ${skew}`, 'see that the time is kept, as by chrony or systemd-timesyncd')];
			}
			const detail = `${(Math.abs(skew) / 1000).toFixed(1)} s ${skew < 0 ? 'behind' : 'ahead of'} ${server.host}`;
			const off = Math.abs(skew);
			return [off > tooMuchMs ? fail(detail, keepTime) : off > noticeableMs ? warn(detail, keepTime) : ok(detail)];
		},
	};
}

/** How far the machine's clock is from the database's, by which mail goes. */
export function databaseClockCheck({skew}: Pick<Store, 'skew'>): Check {
	return {
		name: 'database-clock',
		why: 'All daemons of one PostgreSQL go by its clock; the log and TLS go by the clock of the machine.',
		async look() {
			const ahead = skew();
			const detail = `the machine is ${(Math.abs(ahead) / 1000).toFixed(1)} s ${ahead < 0 ? 'behind' : 'ahead of'} PostgreSQL`;
			return [Math.abs(ahead) > noticeableSkewMs ? warn(detail, keepTime) : ok(detail)];
		},
	};
}

/** Milliseconds that our clock is ahead, or why that is not known. */
async function clockSkew(clock: Clock, resolver: Resolver, {host, port}: TimeServer): Promise<number | string> {
	const found = isIP(host) === 0 ? await resolver.a(host) : {kind: 'found' as const, records: [host]};
	const [address] = found.kind === 'found' ? found.records : [];
	if (address === undefined) {
		return `the time server ${host} was not found in DNS`;
	}
	const asked = clock.now();
	const answer = await ask(address, port);
	if (answer === null) {
		return `the time server ${host} did not answer`;
	}
	const answered = clock.now();
	// The server's moment of sending lies in the middle of our waiting, near enough for seconds.
	return (asked + answered) / 2 - transmitTime(answer);
}

function ask(address: string, port: number): Promise<Buffer | null> {
	return new Promise(resolve => {
		const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
		const timer = setTimeout(() => end(null), answerLimitMs);
		const end = (answer: Buffer | null) => {
			clearTimeout(timer);
			socket.close();
			resolve(answer);
		};
		socket.once('error', () => end(null));
		socket.once('message', message => end(message.length >= 48 ? message : null));
		// Version 4, mode 3: a client's question; the rest may be zero.
		socket.connect(port, address, () => socket.send(Buffer.concat([Buffer.from([0x23]), Buffer.alloc(47)])));
	});
}

function transmitTime(packet: Buffer): number {
	const seconds = packet.readUInt32BE(40) - epochOffset;
	return seconds * 1000 + (packet.readUInt32BE(44) / 2 ** 32) * 1000;
}

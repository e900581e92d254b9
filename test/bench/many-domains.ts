import type {Sink} from '../../src/cli/bench/measures.ts';
import type {Workload} from '../../src/cli/bench/throw-away.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';
import {freePort} from '../helpers/free-port.ts';
import {itemReceipt} from './receipts.ts';
import {startSinkOf} from './sink.ts';

const domains = 40;
const perRequest = 50;

/** The receipt with twelve items, sent by batch to many domains: about 20 KB of mail. */
export const toManyDomains: Workload = {
	template: itemReceipt.source,
	to: 'user{n}@d{d}.example',
	data: itemReceipt.dataOf('{n}'),
	domains,
	perRequest,
};

type Sinks = Pick<Sink, 'count' | 'stop'>;

/** Where its mail goes: hosts on addresses of their own, each for as many of the domains, found by DNS. */
export async function startLab({hosts = 8, openSinks = oneEach} = {}): Promise<Omit<Sink, 'port'>> {
	const port = await freePort();
	const addresses = Array.from({length: hosts}, (_, n) => `127.0.1.${n + 1}`);
	const sinks = await openSinks(addresses, port);
	const mailHosts: Zone = Object.fromEntries(addresses.map((address, n) => [`mx${n}.host.example`, {a: [address]}]));
	const recipients: Zone = Object.fromEntries(
		Array.from({length: domains}, (_, n) => [
			`d${n}.example`,
			{mx: [[10, `mx${n % hosts}.host.example`]] as const},
		]),
	);
	const dns = await startFakeDns(null, {...mailHosts, ...recipients});
	return {
		settings: {
			MAILCTL_DELIVERY: 'mx',
			MAILCTL_HOSTNAME: 'mail.shop.example',
			MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
			MAILCTL_DNS_SERVERS: dns.server,
			MAILCTL_MX_PORT: String(port),
			MAILCTL_ALLOW_PRIVATE_MX: 'true',
		},
		count: sinks.count,
		async stop() {
			await Promise.all([dns.close(), sinks.stop()]);
		},
	};
}

async function oneEach(addresses: readonly string[], port: number): Promise<Sinks> {
	const sinks = await Promise.all(addresses.map(address => startSinkOf(address, port)));
	return {
		count: () => sinks.reduce((sum, sink) => sum + sink.count(), 0),
		stop: async () => void (await Promise.all(sinks.map(sink => sink.stop()))),
	};
}

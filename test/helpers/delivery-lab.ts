import {Deliverer, type DelivererOptions} from '../../src/deliver/deliverer.ts';
import type {Delivery} from '../../src/deliver/transaction.ts';
import {postmarkMail} from '../../src/inbound/providers/postmark-mail.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {createIdSource} from '../../src/mail/ids.ts';
import type {AttemptResult} from '../../src/mail/outcome.ts';
import type {Terms} from '../../src/mail/route.ts';
import {ProviderClient} from '../../src/net/provider-client.ts';
import {createResolver} from '../../src/net/resolver.ts';
import type {SmtpTimeouts} from '../../src/net/smtp-timeouts.ts';
import {classify} from './classify.ts';
import {type FakeDns, startFakeDns, type Zone} from './fake-dns.ts';
import {type FakeMx, type FakeMxOptions, startFakeMx, type Teardown} from './fake-mx.ts';
import {loopbackAddress} from './loopback.ts';

const unknown = async () => ({kind: 'nxdomain'}) as const;
const noProviders = {a: unknown, aaaa: unknown};
const newId = createIdSource(systemClock);

/** Long enough for a busy machine; tests of frozen peers pass shorter ones. */
export const testTimeouts: SmtpTimeouts = {
	connect: 60_000,
	greeting: 60_000,
	ehlo: 60_000,
	starttls: 60_000,
	mail: 60_000,
	rcpt: 60_000,
	data: 60_000,
	block: 60_000,
	dot: 60_000,
	rset: 60_000,
	quit: 60_000,
};

/** To the hosts of the domain, with TLS where they offer it. */
export const plainTerms: Terms = {
	nextHop: {kind: 'mx'},
	tls: 'opportunistic',
	mtaSts: null,
	sources: [],
	mailsPerSession: 50,
};

export function testDelivery(overrides: Partial<Delivery> = {}): Delivery {
	return {
		recipientId: newId('rcp'),
		workspaceId: 'ws_1',
		destination: 'example.test',
		envelope: {from: 'bounce@mail.test', to: 'user@example.test', smtputf8: false},
		ref: 'ref-1',
		terms: plainTerms,
		data: Buffer.from('Subject: hello\r\n\r\nHello.\r\n'),
		attempt: 1,
		endsAt: Number.POSITIVE_INFINITY,
		isSimulated: false,
		...overrides,
	};
}

export type Lab = {
	readonly hosts: readonly FakeMx[];
	readonly dns: FakeDns;
	readonly deliverer: Deliverer;
	/** One try for one mail; the site is the destination. */
	readonly deliver: (job?: Partial<Delivery>, signal?: AbortSignal) => Promise<AttemptResult>;
};

/**
 * MX hosts of `example.test` by preference (`mx0.example.test` first), each on an address of its own, a DNS server that
 * names them, and a deliverer that finds them there.
 */
export async function startLab(
	t: Teardown,
	hosts: readonly FakeMxOptions[],
	overrides: Partial<DelivererOptions> & {
		readonly limit?: number;
		readonly zone?: Zone;
		readonly terms?: Partial<Terms>;
	} = {},
): Promise<Lab> {
	const {limit = 5, zone = {}, terms = {}, ...options} = overrides;
	const started: FakeMx[] = [];
	for (const host of hosts) {
		const port = started[0] === undefined ? {} : {port: started[0].port};
		started.push(await startFakeMx(t, {host: loopbackAddress(), ...port, ...host}));
	}

	const dns = await startFakeDns(t, {
		'example.test': {mx: started.map((_, n) => [10 * n, `mx${n}.example.test`] as const)},
		...Object.fromEntries(started.map(({host}, n) => [`mx${n}.example.test`, {a: [host]}])),
		...zone,
	});
	const deliverer = new Deliverer({
		mode: {kind: 'hosts', port: started[0]?.port ?? 9},
		hostname: 'out.mail.test',
		timeouts: testTimeouts,
		attemptDeadlineMs: 120_000,
		maxSessions: 64,
		// No session ends between two mails because the machine stood still.
		idleMs: 60_000,
		allowPrivateMx: true,
		classify,
		resolver: createResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock: systemClock}),
		apis: {
			client: new ProviderClient({
				resolver: noProviders,
				standIns: new Map(),
				userAgent: 'test',
				limitMs: 60_000,
			}),
			postmarkMail,
		},
		clock: systemClock,
		...options,
	});
	t.teardown(() => deliverer.close());
	return {
		hosts: started,
		dns,
		deliverer,
		deliver(job, signal) {
			const delivery = testDelivery({terms: {...plainTerms, ...terms}, ...job});
			return deliverer.deliver(delivery.destination, limit, delivery, signal);
		},
	};
}

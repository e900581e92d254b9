import {setMaxListeners} from 'node:events';
import {parentPort, workerData} from 'node:worker_threads';
import {Deliverer, type DelivererOptions} from '../../deliver/deliverer.ts';
import type {Delivery} from '../../deliver/transaction.ts';
import {postmarkMail} from '../../inbound/providers/postmark-mail.ts';
import {createSharedClock} from '../../kit/clock.ts';
import {createGarbage} from '../../kit/memory.ts';
import {serveCalls} from '../../kit/thread-calls.ts';
import type {BounceRule} from '../../mail/bounce.ts';
import {createClassify} from '../../mail/classify-reply.ts';
import {ProviderClient, type StandIn} from '../../net/provider-client.ts';
import {createResolver} from '../../net/resolver.ts';
import {createSecureResolver} from '../../net/secure-resolver.ts';
import {Permits, type SilentSite, type SmtpWorkerMethods} from '../../queue/smtp-workers.ts';

/** The data with which an SMTP worker is started: the deliverer's options that can be copied to another thread. */
export type SmtpWorkerData = Omit<
	DelivererOptions,
	'classify' | 'resolver' | 'secureResolver' | 'apis' | 'clock' | 'permit' | 'judged' | 'silent'
> & {
	/** `ip` or `ip:port`; empty for the system's servers. */
	readonly dnsServers: readonly string[];
	/** From MAILCTL_PROVIDER_HOSTS. */
	readonly providerHosts: ReadonlyArray<readonly [string, StandIn]>;
	readonly userAgent: string;
	/** Whether the DNS servers validate DNSSEC, so that TLSA records are honored. */
	readonly dane: boolean;
	/** The memory of the daemon's clock. */
	readonly time: SharedArrayBuffer;
	/** The rules for classifying rejections, until others are sent. */
	readonly bounceRules: readonly BounceRule[];
};

/** The time limit of one query to one server, in milliseconds. */
const dnsTimeoutMs = 5000;
const dnsTries = 2;
/** The time limit of one request to a provider's API, in milliseconds. */
const maxApiMs = 120_000;

const {dnsServers, dane, bounceRules, time, providerHosts, userAgent, ...options} = workerData as SmtpWorkerData;
const clock = createSharedClock(time);
const stopping = new AbortController();
// Every waiting recipient adds a listener, which Node reports as a leak from the eleventh on.
setMaxListeners(0, stopping.signal);
const permits = new Permits(options.maxSessions);
/** By recipient id, a function that is called once the outcome has been recorded. */
const awaitingRecord = new Map<string, () => void>();
const dns = {servers: dnsServers, timeoutMs: dnsTimeoutMs, tries: dnsTries, clock};
let classify = createClassify(bounceRules);
const resolver = createResolver(dns);
const client = new ProviderClient({
	resolver,
	userAgent,
	ca: options.ca,
	standIns: new Map(providerHosts),
	// The same limit as for the reply to the final dot: without a response, the message may have been accepted.
	limitMs: Math.min(options.timeouts.dot, options.attemptDeadlineMs, maxApiMs),
});
const deliverer = new Deliverer({
	...options,
	classify: evidence => classify(evidence),
	resolver,
	apis: {client, postmarkMail},
	...(dane ? {secureResolver: createSecureResolver(dns)} : {}),
	clock,
	permit: id => permits.take(id),
	silent: site => sendSilent(site),
	judged: id => new Promise(resolve => (stopping.signal.aborted ? resolve() : awaitingRecord.set(id, resolve))),
});
const countGarbage = createGarbage();

const sendSilent = serveCalls<SmtpWorkerMethods<Delivery>, SilentSite>(parentPort as NonNullable<typeof parentPort>, {
	async deliver({site, connections, delivery}) {
		const {length} = delivery.data;
		const result = await deliverer.deliver(site, connections, delivery, stopping.signal);
		countGarbage(length);
		return result;
	},
	allow(limits) {
		for (const [site, connections] of limits) {
			deliverer.allow(site, connections);
		}
	},
	count: () => deliverer.bySite(),
	recorded(ids) {
		for (const id of ids) {
			permits.giveBack(id);
			awaitingRecord.get(id)?.();
			awaitingRecord.delete(id);
		}
	},
	classifyBy(rules) {
		classify = createClassify(rules);
	},
	drain: abortWaiting,
	close() {
		abortWaiting();
		void deliverer.close().then(() => process.exit());
	},
});

function abortWaiting(): void {
	stopping.abort();
	for (const resolve of awaitingRecord.values()) {
		resolve();
	}
	awaitingRecord.clear();
}

import {setMaxListeners} from 'node:events';
import {parentPort, workerData} from 'node:worker_threads';
import {createClassify} from '../bounce/classify.ts';
import {Deliverer, type DelivererOptions} from '../deliver/deliverer.ts';
import type {Delivery} from '../deliver/transaction.ts';
import {createResolver} from '../dns/resolver.ts';
import {createSecureResolver} from '../dns/secure-resolver.ts';
import {createSharedClock} from '../kit/clock.ts';
import {createGarbage} from '../kit/memory.ts';
import {answerCalls} from '../kit/thread-calls.ts';
import type {BounceRule} from '../mail/bounce.ts';
import {ProviderClient, type StandIn} from '../net/provider-client.ts';
import {postmarkMail} from '../providers/postmark-mail.ts';
import {Permits, type SilentSite, type SmtpWorkerMethods} from '../queue/smtp-workers.ts';

/** What an SMTP worker is started with: the deliverer's options that can be copied to another thread. */
export type SmtpWorkerData = Omit<
	DelivererOptions,
	'classify' | 'resolver' | 'secureResolver' | 'apis' | 'clock' | 'permit' | 'judged' | 'silent'
> & {
	/** `ip` or `ip:port`; empty: the system's. */
	readonly dnsServers: readonly string[];
	/** Of MAILCTL_PROVIDER_HOSTS. */
	readonly providerHosts: ReadonlyArray<readonly [string, StandIn]>;
	readonly userAgent: string;
	/** They validate DNSSEC: TLSA records are obeyed. */
	readonly dane: boolean;
	/** Of the daemon's clock. */
	readonly time: SharedArrayBuffer;
	/** By which refusals are read, until others are sent. */
	readonly bounceRules: readonly BounceRule[];
};

/** One query to one server, milliseconds. */
const dnsTimeoutMs = 5000;
const dnsTries = 2;
/** For one request to a provider's API, milliseconds. */
const maxApiMs = 120_000;

const {dnsServers, dane, bounceRules, time, providerHosts, userAgent, ...options} = workerData as SmtpWorkerData;
const clock = createSharedClock(time);
const stop = new AbortController();
// Every waiting recipient listens; Node would take the eleventh for a leak.
setMaxListeners(0, stop.signal);
const permits = new Permits(options.maxSessions);
/** By recipient: continues once its outcome is judged. */
const unjudged = new Map<string, () => void>();
const dns = {servers: dnsServers, timeoutMs: dnsTimeoutMs, tries: dnsTries, clock};
let classify = createClassify(bounceRules);
const resolver = createResolver(dns);
const client = new ProviderClient({
	...{resolver, userAgent, ca: options.ca},
	standIns: new Map(providerHosts),
	// As for the answer to the last dot: without one the mail may have been taken.
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
	silent: site => tellSilent(site),
	judged: id => new Promise(resolve => (stop.signal.aborted ? resolve() : unjudged.set(id, resolve))),
});
const letGo = createGarbage();

const tellSilent = answerCalls<SmtpWorkerMethods<Delivery>, SilentSite>(parentPort as NonNullable<typeof parentPort>, {
	async deliver({site, connections, delivery}) {
		const {length} = delivery.data;
		const result = await deliverer.deliver(site, connections, delivery, stop.signal);
		letGo(length);
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
			unjudged.get(id)?.();
			unjudged.delete(id);
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
	stop.abort();
	for (const resolve of unjudged.values()) {
		resolve();
	}
	unjudged.clear();
}

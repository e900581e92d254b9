import {setMaxListeners} from 'node:events';
import {parentPort, workerData} from 'node:worker_threads';
import {createClassify} from '../bounce/classify.ts';
import {Deliverer, type DelivererOptions} from '../deliver/deliverer.ts';
import type {Delivery} from '../deliver/transaction.ts';
import {createResolver} from '../dns/resolver.ts';
import {createSecureResolver} from '../dns/secure-resolver.ts';
import {createSharedClock} from '../kit/clock.ts';
import {createGarbage} from '../kit/memory.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {FromSmtpWorker, ToSmtpWorker, WorkerResult} from '../queue/smtp-workers.ts';
import {Permits} from './permits.ts';

/** What a sender thread is started with: the deliverer's options that can be copied to another thread. */
export type SmtpWorkerData = Omit<
	DelivererOptions,
	'classify' | 'resolver' | 'secureResolver' | 'clock' | 'permit' | 'judged'
> & {
	/** `ip` or `ip:port`; empty: the system's. */
	readonly dnsServers: readonly string[];
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

const {dnsServers, dane, bounceRules, time, ...options} = workerData as SmtpWorkerData;
const clock = createSharedClock(time);
const port = parentPort as NonNullable<typeof parentPort>;
const stop = new AbortController();
// Every waiting recipient listens; Node would take the eleventh for a leak.
setMaxListeners(0, stop.signal);
const permits = new Permits(options.maxSessions);
/** Who waits for the outcome of a recipient to be judged. */
const unjudged = new Map<string, () => void>();
const dns = {servers: dnsServers, timeoutMs: dnsTimeoutMs, tries: dnsTries, clock};
let classify = createClassify(bounceRules);
const deliverer = new Deliverer({
	...options,
	classify: evidence => classify(evidence),
	resolver: createResolver(dns),
	...(dane ? {secureResolver: createSecureResolver(dns)} : {}),
	clock,
	permit: id => permits.take(id),
	judged: id => new Promise(resolve => (stop.signal.aborted ? resolve() : unjudged.set(id, resolve))),
});
const letGo = createGarbage();
let results: WorkerResult[] = [];

port.on('message', (message: ToSmtpWorker<Delivery>) => {
	if (message.kind === 'drain') {
		abortWaiting();
		return;
	}
	if (message.kind === 'close') {
		abortWaiting();
		void deliverer.close().then(() => process.exit());
		return;
	}
	if (message.kind === 'rules') {
		classify = createClassify(message.rules);
		return;
	}
	if (message.kind === 'recorded') {
		for (const id of message.recipientIds) {
			permits.giveBack(id);
			unjudged.get(id)?.();
			unjudged.delete(id);
		}
		return;
	}
	if (message.kind === 'allow') {
		deliverer.allow(message.site, message.connections);
		return;
	}
	if (message.kind === 'count') {
		port.postMessage({kind: 'counted', sites: deliverer.bySite()} satisfies FromSmtpWorker);
		return;
	}
	for (const {site, connections, delivery} of message.jobs) {
		const {recipientId, data} = delivery;
		// A fault of ours with one recipient must not end the sessions of all others.
		deliverer
			.deliver(site, connections, delivery, stop.signal)
			.then(answer, error => answer({recipientId, fault: String(error)}))
			.then(() => letGo(data.length));
	}
});

port.postMessage({kind: 'ready'} satisfies FromSmtpWorker);

function abortWaiting(): void {
	stop.abort();
	for (const resolve of unjudged.values()) {
		resolve();
	}
	unjudged.clear();
}

/** What ends in the same turn of the event loop travels together. */
function answer(result: WorkerResult): void {
	results.push(result);
	if (results.length === 1) {
		setImmediate(() => {
			port.postMessage({kind: 'results', results} satisfies FromSmtpWorker);
			results = [];
		});
	}
}

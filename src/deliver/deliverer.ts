import {setMaxListeners} from 'node:events';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import type {Classify} from '../mail/bounce.ts';
import type {Attempt, AttemptResult, Outcome, SmtpReply} from '../mail/outcome.ts';
import type {Terms} from '../mail/route.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import type {Resolver, SecureResolver} from '../net/dns.ts';
import type {SmtpTimeouts} from '../net/smtp-timeouts.ts';
import type {Apis} from './api-host.ts';
import {readyForNext, type Used} from './conversation.ts';
import {Families, findMxHosts, type LookUp, type NoHost, RelayHosts} from './find-hosts.ts';
import {createDemands, type Host, isSameHost, sourceFor} from './host.ts';
import {capture, simulate, simulatedReply, simulatorKind} from './local-delivery.ts';
import {SecureContexts, type Session} from './open-session.ts';
import {ConnectionPool, type Slot} from './pool.ts';
import {type Delivery, isSafeEnvelope} from './transaction.ts';
import {BrokenTls, LockStepHosts, type Silence, type TryOptions, tryHosts} from './try-hosts.ts';

type DeliveryMode =
	/** To mail servers or relays, according to the terms of each delivery. MX hosts listen on this port. */
	| {readonly kind: 'hosts'; readonly port: number}
	/** Into a folder, whatever the terms. */
	| {readonly kind: 'capture'; readonly folder: string};

export type DelivererOptions = {
	readonly mode: DeliveryMode;
	/** The name sent in EHLO. */
	readonly hostname: string;
	readonly timeouts: SmtpTimeouts;
	/** The time limit for all mail servers of one attempt together, in milliseconds. */
	readonly attemptDeadlineMs: number;
	/** The maximum number of simultaneous connections. */
	readonly maxSessions: number;
	/** For test labs only. */
	readonly allowPrivateMx: boolean;
	/** Addresses at which this system receives mail itself. */
	readonly ownAddresses?: readonly string[];
	/** Additional trusted certificate authorities, as PEM. */
	readonly ca?: string;
	/** Classifies refusals. It is called for each one, so the rules may change at runtime. */
	readonly classify: Classify;
	readonly resolver: Resolver;
	/** A DNSSEC-validating resolver, present if DANE is enabled. */
	readonly secureResolver?: SecureResolver | undefined;
	readonly apis: Apis;
	/** Resolves the names of relays. The default is the operating system's resolver. */
	readonly lookUp?: LookUp;
	readonly clock: Clock;
	/**
	 * Called before a message is transmitted. Messages that were sent but not yet recorded are sent again after a
	 * crash, so the permits limit how many those can be.
	 */
	readonly permit?: (recipientId: string) => Promise<void>;
	/**
	 * Resolves once the provider's capacity has been recalculated after an attempt that was not accepted. Until then
	 * the connection slot stays occupied, because the capacity may shrink.
	 */
	readonly judged?: (recipientId: string) => Promise<void>;
	/** Whether to use IPv6 where this machine can; true by default. */
	readonly ipv6?: boolean;
	/** How long a session waits for the next message; 10 s by default. */
	readonly idleMs?: number;
	/** Called when a mail server of this provider has not replied for `silentAfterMs`. */
	readonly silent?: (site: string) => void;
	/** 5 s by default. */
	readonly silentAfterMs?: number;
};

const defaultIdleMs = 10_000;
const defaultSilentAfterMs = 5000;

/**
 * Delivers messages over SMTP to MX hosts or relays, through providers' APIs, or into a folder.
 *
 * This is the entry to the folder. `deliver` finds the hosts for a recipient, waits for a connection slot, and makes
 * one attempt. It relies on the resolver, clock and classifier passed in. The folder knows nothing of the queue or the
 * store: it never decides when to retry, and it records nothing; it returns what happened.
 */
export class Deliverer {
	readonly #options: DelivererOptions;
	readonly #pool: ConnectionPool;
	readonly #findHosts: ReturnType<typeof createHostFinder>;
	readonly #tryOptions: Omit<TryOptions, 'sources' | 'isRelay' | 'notify' | 'accepted' | 'isAllowed' | 'silence'>;

	constructor(options: DelivererOptions) {
		const {clock, timeouts, maxSessions, hostname, permit, classify, attemptDeadlineMs, apis} = options;
		if (!/^[\x21-\x7e]+$/.test(hostname)) {
			throw new Error('the EHLO name must be printable ASCII without spaces');
		}
		this.#options = options;
		this.#pool = new ConnectionPool({maxSessions, idleMs: options.idleMs ?? defaultIdleMs, quitMs: timeouts.quit});
		this.#findHosts = createHostFinder(options);
		this.#tryOptions = {
			hostname,
			timeouts,
			clock,
			permit,
			classify,
			attemptDeadlineMs,
			apis,
			secureContexts: new SecureContexts(options.ca),
			brokenTls: new BrokenTls(clock),
			lockStepHosts: new LockStepHosts(clock),
		};
	}

	/** Sets the provider's connection limit. With 0, deliveries waiting for a connection return `released`. */
	allow(site: string, limit: number): void {
		this.#pool.allow(site, limit);
	}

	count(): ReturnType<ConnectionPool['count']> {
		return this.#pool.count();
	}

	/** Returns the number of connections per provider, including idle and closing ones. */
	bySite(): ReturnType<ConnectionPool['bySite']> {
		return this.#pool.bySite();
	}

	/** Stops accepting work, waits for open deliveries, and closes idle sessions. */
	close(): Promise<void> {
		return this.#pool.close();
	}

	/**
	 * Makes one attempt to deliver to a recipient, with at most `limit` connections to the provider. Aborting the
	 * signal releases the delivery (`released`) unless its data is being sent. So does the end of its lifetime, if no
	 * mail server was contacted by then. Rejects only on a bug in mailctl.
	 */
	async deliver(site: string, limit: number, job: Delivery, signal?: AbortSignal): Promise<AttemptResult> {
		const {mode, clock, judged} = this.#options;
		if (signal !== undefined) {
			setMaxListeners(0, signal); // One signal may be shared by any number of deliveries.
		}
		const startedAt = clock.now();
		const result = (outcome: Outcome, attempts: readonly Attempt[], sentAt: string | null): AttemptResult => ({
			recipientId: job.recipientId,
			outcome,
			attempts,
			sentAt,
			at: storeTime(clock.now()),
		});

		if (job.isSimulated || job.destination === simulatorDomain) {
			const outcome = simulate(simulatorKind(job.envelope.to), job.attempt);
			const reply = simulatedReply(outcome);
			const at = storeTime(startedAt);
			return reply === null ? result(outcome, [], null) : result(outcome, [simulatedAttempt(at, reply)], at);
		}
		if (mode.kind === 'capture') {
			const outcome = await capture(mode.folder, job);
			return result(outcome, [], outcome.kind === 'delivered' ? storeTime(startedAt) : null);
		}
		if (!isSafeEnvelope(job.envelope)) {
			return result({kind: 'errored', reason: 'bad_envelope'}, [], null);
		}
		const endExpectation = this.#pool.expect(site, Math.max(1, limit));
		const hosts = await this.#findHosts(job).catch(error => {
			endExpectation();
			throw error;
		});
		if (!Array.isArray(hosts)) {
			endExpectation();
			return result(hosts.outcome, [noHostAttempt(hosts, startedAt, clock.now() - startedAt)], null);
		}
		const {terms} = job;
		// A recipient that was attempted before tries the next host in turn first.
		const candidates = job.attempt === 1 ? hosts : hosts.filter(({name: host}) => host === hosts[0]?.name);
		const pendingSlot = this.#pool.acquire(site, limit, {
			fits: session => canCarry(session, candidates, terms),
			workspaceId: job.workspaceId,
			waitMs: job.endsAt - clock.now(),
			precedence: job.precedence,
			signal,
		});
		endExpectation();
		const slot = await pendingSlot;
		if (slot === null) {
			return result({kind: 'released'}, [], null);
		}
		let used: Used | null = null;
		let isAccepted = false;
		try {
			const {session, isAllowed} = slot;
			const options = {...this.#tryOptions, ...toOptions(terms), isAllowed, silence: this.#silenceOf(site, slot)};
			const tryResult = await tryHosts(job, hosts, session, options, signal);
			used = tryResult.used;
			isAccepted = tryResult.outcome.kind === 'delivered' || tryResult.outcome.kind === 'relayed';
			return result(tryResult.outcome, tryResult.attempts, tryResult.sentAt);
		} finally {
			// Not awaited, because RSET and QUIT take time.
			void this.#releaseSlot(slot, used, terms, isAccepted ? undefined : judged?.(job.recipientId));
		}
	}

	#silenceOf(site: string, {fallSilent, noteReply}: Slot): Silence {
		const {silent, silentAfterMs = defaultSilentAfterMs} = this.#options;
		return {
			afterMs: silentAfterMs,
			began(giveUp) {
				silent?.(site);
				fallSilent(giveUp);
			},
			ended: noteReply,
		};
	}

	async #releaseSlot(
		slot: Slot,
		used: Used | null,
		{mailsPerSession}: Terms,
		judged: Promise<void> | undefined,
	): Promise<void> {
		const session = used === null ? null : await readyForNext(used, mailsPerSession, this.#options.timeouts);
		await judged;
		slot.release(session);
	}
}

function noHostAttempt({code, enhanced, reply, tlsResult}: NoHost, startedAt: number, ms: number): Attempt {
	const at = storeTime(startedAt);
	return {at, host: null, ip: null, tls: null, tlsResult, phase: 'route', code, enhanced, reply, ms, dialogue: null};
}

function simulatedAttempt(at: string, {code, enhanced, text: reply}: SmtpReply): Attempt {
	const phase = code === 250 ? 'dot' : 'rcpt';
	return {at, host: simulatorDomain, ip: null, tls: null, phase, code, enhanced, reply, ms: 0, dialogue: null};
}

/** Whether an idle session may carry a message that has these hosts and terms. */
function canCarry({host, localAddress, messageCount}: Session, hosts: readonly Host[], terms: Terms): boolean {
	return (
		messageCount < terms.mailsPerSession &&
		sourceFor(terms.sources, host.address)?.address === localAddress &&
		hosts.some(candidate => isSameHost(candidate, host))
	);
}

/** Returns the options for these terms. A report of success is also requested from a relay whose 250 is not final. */
function toOptions({nextHop, sources}: Terms): Pick<TryOptions, 'sources' | 'isRelay' | 'notify' | 'accepted'> {
	const isRelay = nextHop.kind === 'relay';
	return isRelay && nextHop.acceptMeans === 'sent'
		? {sources, isRelay, notify: 'SUCCESS,FAILURE', accepted: 'relayed'}
		: {sources, isRelay, notify: 'FAILURE', accepted: 'delivered'};
}

function createHostFinder(options: DelivererOptions): (job: Delivery) => Promise<Host[] | NoHost> {
	const {mode, resolver, secureResolver, allowPrivateMx, clock, lookUp} = options;
	const relayHosts = new RelayHosts(clock, lookUp);
	const port = mode.kind === 'hosts' ? mode.port : 0;
	const mxOptions = {
		resolver,
		families: new Families({ipv6: options.ipv6 ?? true, resolver, allowPrivate: allowPrivateMx, clock}),
		port,
		allowPrivateMx,
		ownAddresses: new Set(options.ownAddresses ?? []),
	};
	return job => {
		const {terms, destination} = job;
		return terms.nextHop.kind === 'relay'
			? relayHosts.find(terms.nextHop.relays, job.previousAttempts)
			: findMxHosts(destination, job, {
					...mxOptions,
					demandOf: createDemands(destination, terms, {secureResolver, port}),
				});
	};
}

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
import {demandsOf, type Host, sameHost, sourceFor} from './host.ts';
import {capture, simulate, simulatedReply, simulatorKind} from './local-delivery.ts';
import {SecureContexts, type Session} from './open-session.ts';
import {ConnectionPool, type Slot} from './pool.ts';
import {type Delivery, isSafeEnvelope} from './transaction.ts';
import {BrokenTls, LockStepHosts, type Silence, type TryOptions, tryHosts} from './try-hosts.ts';

type DeliveryMode =
	/** To hosts, by the terms of each delivery; those of a recipient's domain listen on this port. */
	| {readonly kind: 'hosts'; readonly port: number}
	/** Into a folder, for all terms. */
	| {readonly kind: 'capture'; readonly folder: string};

export type DelivererOptions = {
	readonly mode: DeliveryMode;
	/** The EHLO name. */
	readonly hostname: string;
	readonly timeouts: SmtpTimeouts;
	/** All hosts of one try together, in milliseconds. */
	readonly attemptDeadlineMs: number;
	/** Connections at once. */
	readonly maxSessions: number;
	/** For a lab. */
	readonly allowPrivateMx: boolean;
	/** Addresses where this system takes mail itself. */
	readonly ownAddresses?: readonly string[];
	/** PEM of certificate authorities to trust in addition to the public ones. */
	readonly ca?: string;
	/** Reads refusals; asked for each, so that it may change. */
	readonly classify: Classify;
	readonly resolver: Resolver;
	/** A validating one, where DANE is on. */
	readonly secureResolver?: SecureResolver | undefined;
	readonly apis: Apis;
	/** Finds smarthosts; the operating system if left out. */
	readonly lookUp?: LookUp;
	readonly clock: Clock;
	/** Asked before a mail is put on the wire: what was sent and is not yet recorded is sent again after a crash. */
	readonly permit?: (recipientId: string) => Promise<void>;
	/**
	 * Resolves when the site's capacity is known after a try that was not accepted. Until then its connection slot
	 * stays taken, as the capacity may shrink.
	 */
	readonly judged?: (recipientId: string) => Promise<void>;
	/** Whether mail may leave by IPv6, where this machine can; true. */
	readonly ipv6?: boolean;
	/** How long a session waits for the next mail; 10 s. */
	readonly idleMs?: number;
	/** Is told when a session with the site has heard nothing for a while. */
	readonly silent?: (site: string) => void;
	/** How long that is; 5 s. */
	readonly silentAfterMs?: number;
};

const defaultIdleMs = 10_000;
const defaultSilentAfterMs = 5000;

/** Hands mail over as its terms say: to MX hosts, to a smarthost; or into a folder. It knows nothing of the queue. */
export class Deliverer {
	readonly #options: DelivererOptions;
	readonly #pool: ConnectionPool;
	readonly #findHosts: ReturnType<typeof hostFinder>;
	readonly #tryOptions: Omit<TryOptions, 'sources' | 'relay' | 'notify' | 'accepted' | 'isAllowed' | 'silence'>;

	constructor(options: DelivererOptions) {
		const {clock, timeouts, maxSessions, hostname, permit, classify, attemptDeadlineMs, apis} = options;
		if (!/^[\x21-\x7e]+$/.test(hostname)) {
			throw new Error('the EHLO name must be one word of printable ASCII');
		}
		this.#options = options;
		this.#pool = new ConnectionPool({maxSessions, idleMs: options.idleMs ?? defaultIdleMs, quitMs: timeouts.quit});
		this.#findHosts = hostFinder(options);
		this.#tryOptions = {
			...{hostname, timeouts, clock, permit, classify, attemptDeadlineMs, apis},
			secureContexts: new SecureContexts(options.ca),
			brokenTls: new BrokenTls(clock),
			lockStepHosts: new LockStepHosts(clock),
		};
	}

	/** Sets the site's connection limit. 0: deliveries that wait for a connection come back as `released`. */
	allow(site: string, limit: number): void {
		this.#pool.allow(site, limit);
	}

	count(): ReturnType<ConnectionPool['count']> {
		return this.#pool.count();
	}

	/** Connections by site, those that are idle or ending included. */
	bySite(): ReturnType<ConnectionPool['bySite']> {
		return this.#pool.bySite();
	}

	/** Takes no more work, waits for open deliveries, ends idle sessions. */
	close(): Promise<void> {
		return this.#pool.close();
	}

	/**
	 * Tries once to deliver to a recipient, with at most `limit` connections to the site. An aborted signal releases
	 * the delivery (`released`) unless its data is under way; so does the end of its lifetime before a host was asked.
	 * Rejects only for a bug of ours.
	 */
	async deliver(site: string, limit: number, job: Delivery, signal?: AbortSignal): Promise<AttemptResult> {
		const {mode, clock, judged} = this.#options;
		if (signal !== undefined) {
			setMaxListeners(0, signal); // One signal may stop any number of deliveries.
		}
		const begun = clock.now();
		const result = (outcome: Outcome, attempts: readonly Attempt[], sentAt: string | null): AttemptResult => ({
			recipientId: job.recipientId,
			outcome,
			attempts,
			sentAt,
			at: storeTime(clock.now()),
		});

		if (job.simulated || job.destination === simulatorDomain) {
			const outcome = simulate(simulatorKind(job.envelope.to), job.attempt);
			const reply = simulatedReply(outcome);
			const at = storeTime(begun);
			return reply === null ? result(outcome, [], null) : result(outcome, [simulatedAttempt(at, reply)], at);
		}
		if (mode.kind === 'capture') {
			const outcome = await capture(mode.folder, job);
			return result(outcome, [], outcome.kind === 'delivered' ? storeTime(begun) : null);
		}
		if (!isSafeEnvelope(job.envelope)) {
			return result({kind: 'errored', reason: 'bad_envelope'}, [], null);
		}
		const expected = this.#pool.expect(site, Math.max(1, limit));
		const found = await this.#findHosts(job).catch(error => {
			expected();
			throw error;
		});
		if (!Array.isArray(found)) {
			expected();
			const {outcome, code, enhanced, reply, tlsResult} = found;
			const ms = clock.now() - begun;
			const at = storeTime(begun);
			const phase = 'route';
			return result(
				outcome,
				[{at, host: null, ip: null, tls: null, tlsResult, phase, code, enhanced, reply, ms, dialogue: null}],
				null,
			);
		}
		const {terms} = job;
		// A recipient that was tried before goes to the next host in turn first.
		const wanted = job.attempt === 1 ? found : found.filter(({name: host}) => host === found[0]?.name);
		const asked = this.#pool.acquire(site, limit, {
			fits: session => serves(session, wanted, terms),
			workspaceId: job.workspaceId,
			waitMs: job.endsAt - clock.now(),
			precedence: job.precedence,
			signal,
		});
		expected();
		const slot = await asked;
		if (slot === null) {
			return result({kind: 'released'}, [], null);
		}
		let used: Used | null = null;
		let accepted = false;
		try {
			const {session, isAllowed} = slot;
			const options = {...this.#tryOptions, ...onTerms(terms), isAllowed, silence: this.#silenceOf(site, slot)};
			const tried = await tryHosts(job, found, session, options, signal);
			used = tried.used;
			accepted = tried.outcome.kind === 'delivered' || tried.outcome.kind === 'relayed';
			return result(tried.outcome, tried.attempts, tried.sentAt);
		} finally {
			void this.#giveBack(slot, used, terms, accepted ? undefined : judged?.(job.recipientId)); // RSET and QUIT take time.
		}
	}

	#silenceOf(site: string, {fallSilent, hear}: Slot): Silence {
		const {silent, silentAfterMs = defaultSilentAfterMs} = this.#options;
		return {
			afterMs: silentAfterMs,
			began(giveUp) {
				silent?.(site);
				fallSilent(giveUp);
			},
			ended: hear,
		};
	}

	async #giveBack(
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

function simulatedAttempt(at: string, {code, enhanced, text: reply}: SmtpReply): Attempt {
	const phase = code === 250 ? 'dot' : 'rcpt';
	return {at, host: simulatorDomain, ip: null, tls: null, phase, code, enhanced, reply, ms: 0, dialogue: null};
}

/** Whether a mail with these routes and terms may go on a session that was opened for another. */
function serves({host, localAddress, mails}: Session, hosts: readonly Host[], terms: Terms): boolean {
	return (
		mails < terms.mailsPerSession &&
		sourceFor(terms.sources, host.address)?.address === localAddress &&
		hosts.some(candidate => sameHost(candidate, host))
	);
}

/** What a host's acceptance means; where a smarthost's 250 is not the end, its report of success is welcome. */
function onTerms({nextHop, sources}: Terms): Pick<TryOptions, 'sources' | 'relay' | 'notify' | 'accepted'> {
	const relay = nextHop.kind === 'relay';
	return relay && nextHop.acceptMeans === 'sent'
		? {sources, relay, notify: 'SUCCESS,FAILURE', accepted: 'relayed'}
		: {sources, relay, notify: 'FAILURE', accepted: 'delivered'};
}

function hostFinder(options: DelivererOptions): (job: Delivery) => Promise<Host[] | NoHost> {
	const {mode, resolver, secureResolver, allowPrivateMx, clock, lookUp} = options;
	const relayHosts = new RelayHosts(clock, lookUp);
	const port = mode.kind === 'hosts' ? mode.port : 0;
	const mx = {
		resolver,
		families: new Families({ipv6: options.ipv6 ?? true, resolver, allowPrivate: allowPrivateMx, clock}),
		port,
		allowPrivateMx,
		ownAddresses: new Set(options.ownAddresses ?? []),
	};
	return job => {
		const {terms, destination} = job;
		return terms.nextHop.kind === 'relay'
			? relayHosts.find(terms.nextHop.relays, job.asked)
			: findMxHosts(destination, job, {...mx, demandOf: demandsOf(destination, terms, {secureResolver, port})});
	};
}

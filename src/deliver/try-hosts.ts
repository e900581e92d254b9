import {setTimeout as pause} from 'node:timers/promises';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import type {Classify} from '../mail/bounce.ts';
import type {Attempt, BounceCategory, Outcome} from '../mail/outcome.ts';
import type {Source} from '../mail/route.ts';
import {
	type Conversation,
	type ConversationOptions,
	converse,
	leave,
	type Plan,
	type TryLimits,
	type Used,
} from './conversation.ts';
import {asksForTls, type Host, sameHost, sourceFor, speaksNoTls} from './host.ts';
import type {Hello, Session} from './open-session.ts';
import {goneMs} from './pool.ts';
import type {SmtpConnection} from './smtp-connection.ts';
import type {Accepted, Delivery} from './transaction.ts';
import {type HostVerdict, isLoginStop, misunderstood, type Stop, verdict} from './verdict.ts';

/** What to do when a host is silent: when one wait for it lasts longer than `afterMs`. */
export type Silence = {
	readonly afterMs: number;
	/** The wait has lasted that long. `giveUp` ends the attempt, so that others can have its connection. */
	readonly began: (giveUp: () => void) => void;
	/** The wait is over, however it ended. */
	readonly ended: () => void;
};

export type TryOptions = ConversationOptions & {
	readonly silence: Silence;
	/** All conversations together, in milliseconds. */
	readonly attemptDeadlineMs: number;
	readonly sources: readonly Source[];
	readonly brokenTls: BrokenTls;
	readonly lockStepHosts: LockStepHosts;
	readonly classify: Classify;
	/** The hosts are smarthosts. */
	readonly relay: boolean;
	/** The recipient's state after a host's acceptance. */
	readonly accepted: 'delivered' | 'relayed';
};

type Try = {
	readonly outcome: Outcome;
	readonly attempts: readonly Attempt[];
	readonly sentAt: string | null;
	/** The session of the last conversation, to be settled. */
	readonly used: Used | null;
};

/** R1.6: sessions with MX hosts in which a mail was offered; connections that broke before are not counted. */
const maxSessions = 2;

/** From this many failed attempts on a mail is not pipelined: few hosts that mishandle pipelining say so. */
const maxPipelinedAttempts = 2;

/** The system's error where no route to an address exists, as to IPv6 on a machine without it. */
const unroutable: ReadonlySet<string> = new Set(['ENETUNREACH', 'EADDRNOTAVAIL', 'EAFNOSUPPORT']);

/** Offers a mail to one host after the other until one decides; every conversation is recorded. */
export async function tryHosts(
	job: Delivery,
	hosts: readonly Host[],
	idle: Session | null,
	options: TryOptions,
	signal?: AbortSignal,
): Promise<Try> {
	const lastsMs = job.expires ? job.endsAt - options.clock.now() : null;
	const limits = createTryLimits(options, lastsMs, signal);
	const plans = plansFor(job, hosts, idle, options);
	const attempts: Attempt[] = [];
	let sentAt: string | null = null;
	let deferral: Outcome | null = null;
	let refusal: Outcome | null = null;
	let used: Used | null = null;
	let sessions = 0;
	let connected = false;
	/** The route that is being tried again without pipelining. */
	let suspect: Host | null = null;
	const isOver = () => limits.over() || options.clock.now() >= job.endsAt;
	let plan = plans.shift();
	for (; plan !== undefined && !isOver(); plan = plans.shift()) {
		// The place is for one connection: the last one goes before another is made.
		await (used && leave(used, options.timeouts));
		if (connected) {
			await pause(goneMs);
		}
		const conversation = await converse(plan, job, options, limits);
		if (conversation === null) {
			limits.done();
			return {outcome: {kind: 'released'}, attempts: [], sentAt: null, used: null};
		}
		const {end} = conversation;
		used = conversation.used;
		connected = end.phase !== 'connect';
		options.brokenTls.learn(plan, conversation);
		sentAt ??= conversation.senderAcceptedAt;
		if (plan.host === suspect && end.by !== 'loss' && !isAgainstPipelining(end)) {
			options.lockStepHosts.add(suspect);
		}
		// The loop ends by itself where there is no time for another: a mail is never refused for that.
		if ((end.by === 'reply' || !limits.over()) && isStale(plan, conversation, options)) {
			// What a host says of its limits sets the pace; that it left an idle session says nothing.
			if (end.by === 'reply' && (end.reply.code !== 421 || end.phase !== 'mail')) {
				attempts.push(conversation.attempt);
			}
			plans.unshift({...plan, session: null});
			continue;
		}
		if (isUnroutable(end) && plans.length > 0) {
			continue;
		}
		const loginRefused = options.relay && end.by !== 'acceptance' && isLoginStop(end);
		attempts.push(loginRefused ? {...conversation.attempt, loginRefused} : conversation.attempt);
		if (end.by === 'acceptance') {
			limits.done();
			return {outcome: {kind: options.accepted}, attempts, sentAt, used};
		}
		if (signal?.aborted === true && end.by === 'loss' && end.phase !== 'dot') {
			break;
		}
		const judged = judge(end, used, plan, options);
		const another = anotherWay(plan, job, conversation, judged);
		if (another !== null && (judged.next !== 'host' || !isOver())) {
			suspect = another.lockStep && !plan.lockStep ? plan.host : null;
			plans.unshift(another);
			continue;
		}
		if (judged.next !== 'host') {
			limits.done();
			return {outcome: judged.outcome, attempts, sentAt, used};
		}
		// A host that can never take the mail counts only where no other may take it later.
		if (judged.outcome.kind === 'deferred') {
			deferral = judged.outcome;
		} else {
			refusal = judged.outcome;
		}
		sessions += used === null || end.by === 'size' || end.by === 'utf8' ? 0 : 1;
		if (sessions === maxSessions && !options.relay) {
			break;
		}
	}
	limits.done();
	// A host that was not asked might take it.
	const last = plan === undefined ? undefined : attempts.at(-1);
	const undecided = deferral ?? (last && cutShort(last)) ?? refusal ?? nothingTried;
	return signal?.aborted === true || (attempts.length === 0 && isOver())
		? {outcome: {kind: 'released'}, attempts: [], sentAt: null, used}
		: {outcome: undecided, attempts, sentAt, used};
}

function cutShort({code, reply}: Attempt): Outcome {
	const reason = (code === null ? reply : `${code} ${reply}`).replaceAll('\n', ' ');
	return {kind: 'deferred', category: 'network', reason};
}

const nothingTried: Outcome = {
	kind: 'deferred',
	category: 'config',
	reason: 'no address that this machine has a route to',
};

/** A route with an idle session comes first. */
function plansFor(
	{attempt}: Delivery,
	hosts: readonly Host[],
	idle: Session | null,
	{sources, brokenTls, lockStepHosts}: TryOptions,
): Plan[] {
	const others = idle === null ? hosts : hosts.filter(host => !sameHost(host, idle.host));
	const plans: Plan[] = [];
	for (const host of idle === null ? others : [idle.host, ...others]) {
		const source = host.api ? undefined : sourceFor(sources, host.address);
		if (source !== null) {
			const session = host === idle?.host ? idle : null;
			const lockStep = attempt > maxPipelinedAttempts || lockStepHosts.has(host);
			const hello = brokenTls.helloFor(host);
			plans.push({host, session, source, hello, tlsFailed: hello === 'none', plainHelo: false, lockStep});
		}
	}
	return plans;
}

/**
 * The host has ended the session, or takes no more mail on it. This does not concern the mail, so a new session
 * decides. Most refusals are about the mail itself. But a host may be at its limit if it took mails here and then
 * refuses one after the other, names the session as the reason, or refuses a recipient for a reason that is not the
 * recipient.
 */
function isStale({session, host}: Plan, {end}: Conversation, {classify}: TryOptions): boolean {
	if (session === null || (end.by !== 'loss' && end.by !== 'reply')) {
		return false;
	}
	if (end.phase === 'mail') {
		return true;
	}
	if (end.by === 'loss') {
		return end.phase !== 'dot';
	}
	if (session.taken === 0 || end.reply.code < 400) {
		return false;
	}
	if (session.refusals > 1 || end.reply.code === 421 || sessionWords.test(end.reply.text)) {
		return true;
	}
	// At the dot a refusal without a reason is one of the content, mostly: here only its words count.
	const {category} = classify({phase: 'rcpt', ...end.reply, status: null, host: host.name});
	return end.reply.code >= 500 && (end.phase === 'dot' ? category === 'undetermined' : !ofRecipient.has(category));
}

const sessionWords = /\b(?:re)?connect(?:ions?)?\b|\bsessions?\b/i;

/** What a host says of a recipient's mailbox. */
const ofRecipient: ReadonlySet<BounceCategory> = new Set<BounceCategory>([
	'unknown_user',
	'unknown_domain',
	'moved',
	'disabled',
	'mailbox_full',
]);

function isUnroutable(end: Accepted | Stop): boolean {
	return end.by === 'loss' && end.phase === 'connect' && unroutable.has(end.errno ?? '');
}

function judge(end: Stop, used: Used | null, {host, plainHelo}: Plan, {relay, classify}: TryOptions): HostVerdict {
	const tlsFailed = used?.session.tlsFailed === true;
	return verdict(end, {host: host.name, relay, tlsFailed, plainHelo, classify});
}

/** The same host once more, where HELO, plain text or another session may help. */
function anotherWay(plan: Plan, job: Delivery, {end, attempt, used}: Conversation, {next}: HostVerdict): Plan | null {
	const hello = end.by === 'tls' ? nextHello(plan, end) : null;
	if (hello !== null) {
		return {...plan, session: null, hello, tlsFailed: hello === 'none'};
	}
	if (used?.session.tlsFailed === true && plan.hello !== 'none' && isLeaving(end)) {
		return {...plan, session: null, hello: 'none', tlsFailed: true};
	}
	if (used?.transaction.grouped === true && isAgainstPipelining(end)) {
		return {...plan, session: null, lockStep: true};
	}
	return (next === 'plainHelo' || (attempt.tls === null && isClosedAtEhlo(plan, end))) && !job.envelope.smtputf8
		? {
				...{...plan, session: null, plainHelo: true, hello: attempt.tls === null ? 'none' : plan.hello},
				tlsFailed: plan.tlsFailed || used?.session.tlsFailed === true,
			}
		: null;
}

/** After a failed STARTTLS some servers accept no further command on the connection. */
function isLeaving(end: Accepted | Stop): boolean {
	return end.phase === 'mail' && (end.by === 'loss' || (end.by === 'reply' && end.reply.code === 421));
}

const pipeliningWords =
	/pipelin|synchroni[sz]|out of sync|before (?:the |my |our )?(?:previous |last )?(?:reply|response|greeting|banner)|out of (?:sequence|order)|unexpected (?:data|input|command)|protocol violation|(?:talk|spoke|speak)\w* too (?:early|soon)|premature|early ?talk/i;

/**
 * Replies that do not fit commands sent together, or a refusal that may be because of that. After the dot it is too
 * late.
 */
function isAgainstPipelining(end: Accepted | Stop): boolean {
	if (end.phase === 'dot') {
		return false;
	}
	if (end.by === 'reply') {
		const {code, enhanced, text} = end.reply;
		// RFC 3463 §3.6: these are about commands; many say 5.5.0 of a recipient. What is misunderstood is tried with
		// HELO.
		const isForGood =
			enhanced === null ? end.phase === 'mail' && !asksForTls(end.reply) : /^5\.5\.[124]/.test(enhanced);
		return code < 400 || (code >= 500 && isForGood && !misunderstood.has(code)) || pipeliningWords.test(text);
	}
	// Some throw away what comes with MAIL, and wait for the rest.
	return (
		end.by === 'loss' &&
		(end.cause === 'outOfStep' || ((end.cause ?? 'silent') === 'silent' && end.phase === 'rcpt'))
	);
}

/** Some old servers hang up on what they do not know. TLS and a log-in need EHLO. */
function isClosedAtEhlo({host, plainHelo}: Plan, end: Accepted | Stop): boolean {
	const needsEhlo = host.login !== null || host.tls === 'unverified' || host.tls === 'required';
	return end.by === 'loss' && end.phase === 'ehlo' && end.cause === 'closed' && !plainHelo && !needsEhlo;
}

/** The ladder of R1.14 and R1.15: a small hello after the usual one, plain text last and only where it is allowed. */
function nextHello({host, hello}: Plan, end: Stop & {readonly by: 'tls'}): Hello | null {
	if (hello === 'usual' && end.failure === 'validation-failure' && !speaksNoTls(end.errno)) {
		return 'reduced';
	}
	return hello !== 'none' && mayDoWithoutTls(host) ? 'none' : null;
}

/** For how long what a host's address has shown is remembered, and of how many. */
const keptMs = 3 * 86_400_000;
const maxRetained = 10_000;
const keyOf = ({address, port}: Host) => `${address} ${port}`;

/** Hosts that offer PIPELINING and mishandle it. */
export class LockStepHosts {
	readonly #clock: Pick<Clock, 'monotonic'>;
	readonly #until = new LRUCache<string, number>(atMost(maxRetained));

	constructor(clock: Pick<Clock, 'monotonic'>) {
		this.#clock = clock;
	}

	has(host: Host): boolean {
		return (this.#until.get(keyOf(host)) ?? 0) > this.#clock.monotonic();
	}

	add(host: Host): void {
		this.#until.set(keyOf(host), this.#clock.monotonic() + keptMs);
	}
}

/**
 * Addresses that took mail only with a smaller hello or in plain text, so that the next mail does not fail first. Only
 * where TLS is not demanded; a host that now insists on TLS is forgotten.
 */
export class BrokenTls {
	readonly #clock: Pick<Clock, 'monotonic'>;
	readonly #known = new LRUCache<string, {readonly hello: Hello; readonly until: number}>(atMost(maxRetained));
	/** Where a handshake has failed, and what works instead is not known yet. */
	readonly #failed = new LRUCache<string, true>(atMost(maxRetained));

	constructor(clock: Pick<Clock, 'monotonic'>) {
		this.#clock = clock;
	}

	/** How to begin TLS with a host now. */
	helloFor(host: Host): Hello {
		const key = keyOf(host);
		const found = mayDoWithoutTls(host) ? this.#known.get(key) : undefined;
		if (found === undefined || found.until > this.#clock.monotonic()) {
			return found?.hello ?? 'usual';
		}
		this.#known.delete(key);
		return 'usual';
	}

	/** Records what a conversation has shown of the host's TLS. */
	learn({host, hello, session}: Plan, {end, used}: Conversation): void {
		if (session !== null || !mayDoWithoutTls(host)) {
			return;
		}
		const key = keyOf(host);
		if (end.by === 'tls') {
			this.#known.delete(key);
			// A server that does not want to now may want to next time.
			if (end.failure === 'validation-failure') {
				this.#failed.set(key, true);
			}
		} else if (end.by === 'reply' && asksForTls(end.reply)) {
			this.#known.delete(key); // It insists on TLS, which may work now.
		} else if (used !== null && this.#failed.delete(key) && hello !== 'usual') {
			this.#known.set(key, {hello, until: this.#clock.monotonic() + keptMs});
		}
	}
}

function mayDoWithoutTls({tls, implicitTls}: Host): boolean {
	return tls === 'opportunistic' && !implicitTls;
}

/** `lastsMs`: after it the mail expires, and only data under way goes on; null: it does not expire. */
function createTryLimits(
	{attemptDeadlineMs: deadlineMs, silence}: Pick<TryOptions, 'attemptDeadlineMs' | 'silence'>,
	lastsMs: number | null,
	signal?: AbortSignal,
): TryLimits {
	let connection: SmtpConnection | null = null;
	let isCommitted = false;
	let late = false;
	const deadline = setTimeout(() => {
		late = true;
		connection?.fail(`the attempt took longer than ${deadlineMs} ms`);
	}, deadlineMs);
	const stop = () => {
		if (!isCommitted) {
			connection?.fail('stopped');
		}
	};
	const expire = () => {
		if (!isCommitted) {
			late = true;
			connection?.fail('the mail expired before the host took it');
		}
	};
	const giveUp = () => {
		late = true;
		connection?.fail('the server did not reply, and the session was needed for other messages', 'silent');
	};
	const expiry = lastsMs !== null && lastsMs < deadlineMs ? setTimeout(expire, lastsMs) : undefined;
	signal?.addEventListener('abort', stop, {once: true});
	return {
		use(used) {
			connection = used;
			used.watchSilence({...silence, began: () => silence.began(giveUp)});
		},
		committed(committed) {
			isCommitted = committed;
			// A host that has the data may have accepted the message: giving up would deliver it twice.
			connection?.watchSilence(null);
		},
		over: () => late || signal?.aborted === true,
		done() {
			clearTimeout(deadline);
			clearTimeout(expiry);
			signal?.removeEventListener('abort', stop);
		},
	};
}

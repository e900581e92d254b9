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
import {demandsTls, type Host, isSameHost, sourceFor, speaksNoTls} from './host.ts';
import type {Hello, Session} from './open-session.ts';
import {closeGraceMs} from './pool.ts';
import type {SmtpConnection} from './smtp-connection.ts';
import type {Accepted, Delivery} from './transaction.ts';
import {type HostVerdict, isLoginStop, misunderstood, type Stop, verdict} from './verdict.ts';

/** What to do when a mail server is silent, that is, when one wait lasts longer than `afterMs`. */
export type Silence = {
	readonly afterMs: number;
	/** The wait has lasted that long. `giveUp` ends the attempt, so that others can use its connection. */
	readonly began: (giveUp: () => void) => void;
	/** The wait is over, whatever the result. */
	readonly ended: () => void;
};

export type TryOptions = ConversationOptions & {
	readonly silence: Silence;
	/** The time limit for all conversations together, in milliseconds. */
	readonly attemptDeadlineMs: number;
	readonly sources: readonly Source[];
	readonly brokenTls: BrokenTls;
	readonly lockStepHosts: LockStepHosts;
	readonly classify: Classify;
	/** Whether the hosts are relays. */
	readonly isRelay: boolean;
	/** The recipient's state after a host has accepted the message. */
	readonly accepted: 'delivered' | 'relayed';
};

type TryResult = {
	readonly outcome: Outcome;
	readonly attempts: readonly Attempt[];
	readonly sentAt: string | null;
	/** The session of the last conversation, which still has to be recovered or closed. */
	readonly used: Used | null;
};

/** The maximum number of sessions with MX hosts that offer a message (R1.6), without those that broke earlier. */
const maxSessions = 2;

/** After this many failed attempts a message is no longer pipelined, as few servers report that they mishandle it. */
const maxPipelinedAttempts = 2;

/** The system's errors if there is no route to an address, such as IPv6 on a machine without it. */
const unroutable: ReadonlySet<string> = new Set(['ENETUNREACH', 'EADDRNOTAVAIL', 'EAFNOSUPPORT']);

/** Offers a message to one host after another until one of them decides. Every conversation is recorded. */
export async function tryHosts(
	job: Delivery,
	hosts: readonly Host[],
	idle: Session | null,
	options: TryOptions,
	signal?: AbortSignal,
): Promise<TryResult> {
	const remainingMs = job.expires ? job.endsAt - options.clock.now() : null;
	const limits = createTryLimits(options, remainingMs, signal);
	const plans = plansFor(job, hosts, idle, options);
	const attempts: Attempt[] = [];
	let sentAt: string | null = null;
	let deferral: Outcome | null = null;
	let refusal: Outcome | null = null;
	let used: Used | null = null;
	let sessions = 0;
	let hasConnected = false;
	/** The host that is being tried again without pipelining. */
	let suspect: Host | null = null;
	const isOver = () => limits.isOver() || options.clock.now() >= job.endsAt;
	let plan = plans.shift();
	for (; plan !== undefined && !isOver(); plan = plans.shift()) {
		// The slot is for one connection, so the last one is closed before another is opened.
		await (used && leave(used, options.timeouts));
		if (hasConnected) {
			await pause(closeGraceMs);
		}
		const conversation = await converse(plan, job, options, limits);
		if (conversation === null) {
			limits.done();
			return {outcome: {kind: 'released'}, attempts: [], sentAt: null, used: null};
		}
		const {end} = conversation;
		used = conversation.used;
		hasConnected = end.phase !== 'connect';
		options.brokenTls.learn(plan, conversation);
		sentAt ??= conversation.senderAcceptedAt;
		if (plan.host === suspect && end.by !== 'loss' && !isAgainstPipelining(end)) {
			options.lockStepHosts.add(suspect);
		}
		// If no time is left for another conversation, the loop ends. That never causes a bounce.
		if ((end.by === 'reply' || !limits.isOver()) && isStale(plan, conversation, options)) {
			// Refusals about a host's limits adjust the pace. Closing an idle session (421 to MAIL) is not one of them.
			if (end.by === 'reply' && (end.reply.code !== 421 || end.phase !== 'mail')) {
				attempts.push(conversation.attempt);
			}
			plans.unshift({...plan, session: null});
			continue;
		}
		if (isUnroutable(end) && plans.length > 0) {
			continue;
		}
		const loginRefused = options.isRelay && end.by !== 'acceptance' && isLoginStop(end);
		attempts.push(loginRefused ? {...conversation.attempt, loginRefused} : conversation.attempt);
		if (end.by === 'acceptance') {
			limits.done();
			return {outcome: {kind: options.accepted}, attempts, sentAt, used};
		}
		if (signal?.aborted === true && end.by === 'loss' && end.phase !== 'dot') {
			break;
		}
		const hostVerdict = judge(end, used, plan, options);
		const fallback = planFallback(plan, job, conversation, hostVerdict);
		if (fallback !== null && (hostVerdict.next !== 'host' || !isOver())) {
			suspect = fallback.isLockStep && !plan.isLockStep ? plan.host : null;
			plans.unshift(fallback);
			continue;
		}
		if (hostVerdict.next !== 'host') {
			limits.done();
			return {outcome: hostVerdict.outcome, attempts, sentAt, used};
		}
		// A permanent refusal by one host counts only if no other host may accept the message later.
		if (hostVerdict.outcome.kind === 'deferred') {
			deferral = hostVerdict.outcome;
		} else {
			refusal = hostVerdict.outcome;
		}
		sessions += used === null || end.by === 'size' || end.by === 'utf8' ? 0 : 1;
		if (sessions === maxSessions && !options.isRelay) {
			break;
		}
	}
	limits.done();
	// A host that was not contacted might accept the message.
	const last = plan === undefined ? undefined : attempts.at(-1);
	const undecided = deferral ?? (last && toDeferral(last)) ?? refusal ?? nothingAttempted;
	return signal?.aborted === true || (attempts.length === 0 && isOver())
		? {outcome: {kind: 'released'}, attempts: [], sentAt: null, used}
		: {outcome: undecided, attempts, sentAt, used};
}

function toDeferral({code, reply}: Attempt): Outcome {
	const reason = (code === null ? reply : `${code} ${reply}`).replaceAll('\n', ' ');
	return {kind: 'deferred', category: 'network', reason};
}

const nothingAttempted: Outcome = {
	kind: 'deferred',
	category: 'config',
	reason: 'this machine has no route to any of the addresses',
};

/** Plans one conversation per host. The host with an idle session comes first. */
function plansFor(
	{attempt}: Delivery,
	hosts: readonly Host[],
	idle: Session | null,
	{sources, brokenTls, lockStepHosts}: TryOptions,
): Plan[] {
	const rest = idle === null ? hosts : hosts.filter(host => !isSameHost(host, idle.host));
	const plans: Plan[] = [];
	for (const host of idle === null ? rest : [idle.host, ...rest]) {
		const source = host.api ? undefined : sourceFor(sources, host.address);
		if (source !== null) {
			const session = host === idle?.host ? idle : null;
			const isLockStep = attempt > maxPipelinedAttempts || lockStepHosts.has(host);
			const hello = brokenTls.helloFor(host);
			plans.push({host, session, source, hello, hasTlsFailed: hello === 'none', isHeloOnly: false, isLockStep});
		}
	}
	return plans;
}

/**
 * Whether the server ended a reused session, or accepts no more messages on it. That is no verdict on the message, so a
 * new session decides. Most refusals are about the message. But a server may be at its limit if it accepted messages on
 * this session and then refuses one after another, blames the session, or refuses a recipient for an unrelated reason.
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
	if (session.acceptedCount === 0 || end.reply.code < 400) {
		return false;
	}
	if (session.refusals > 1 || end.reply.code === 421 || sessionWords.test(end.reply.text)) {
		return true;
	}
	// A refusal without a reason after the final dot is mostly about the content, so only its text is classified here.
	const {category} = classify({phase: 'rcpt', ...end.reply, status: null, host: host.name});
	return end.reply.code >= 500 && (end.phase === 'dot' ? category === 'undetermined' : !aboutMailbox.has(category));
}

const sessionWords = /\b(?:re)?connect(?:ions?)?\b|\bsessions?\b/i;

/** Categories that are about a recipient's mailbox. */
const aboutMailbox: ReadonlySet<BounceCategory> = new Set<BounceCategory>([
	'unknown_user',
	'unknown_domain',
	'moved',
	'disabled',
	'mailbox_full',
]);

function isUnroutable(end: Accepted | Stop): boolean {
	return end.by === 'loss' && end.phase === 'connect' && unroutable.has(end.errno ?? '');
}

function judge(end: Stop, used: Used | null, {host, isHeloOnly}: Plan, {isRelay, classify}: TryOptions): HostVerdict {
	const hasTlsFailed = used?.session.hasTlsFailed === true;
	return verdict(end, {host: host.name, isRelay, hasTlsFailed, isHeloOnly, classify});
}

/** Plans another conversation with the same host if HELO, plain text or a new session may help. */
function planFallback(plan: Plan, job: Delivery, {end, attempt, used}: Conversation, {next}: HostVerdict): Plan | null {
	const hello = end.by === 'tls' ? nextHello(plan, end) : null;
	if (hello !== null) {
		return {...plan, session: null, hello, hasTlsFailed: hello === 'none'};
	}
	if (used?.session.hasTlsFailed === true && plan.hello !== 'none' && isClosing(end)) {
		return {...plan, session: null, hello: 'none', hasTlsFailed: true};
	}
	if (used?.transaction.isGrouped === true && isAgainstPipelining(end)) {
		return {...plan, session: null, isLockStep: true};
	}
	return (next === 'plainHelo' || (attempt.tls === null && isClosedAtEhlo(plan, end))) && !job.envelope.smtputf8
		? {
				...plan,
				session: null,
				isHeloOnly: true,
				hello: attempt.tls === null ? 'none' : plan.hello,
				hasTlsFailed: plan.hasTlsFailed || used?.session.hasTlsFailed === true,
			}
		: null;
}

/** After a failed STARTTLS, some servers accept no further command on the connection. */
function isClosing(end: Accepted | Stop): boolean {
	return end.phase === 'mail' && (end.by === 'loss' || (end.by === 'reply' && end.reply.code === 421));
}

const pipeliningWords =
	/pipelin|synchroni[sz]|out of sync|before (?:the |my |our )?(?:previous |last )?(?:reply|response|greeting|banner)|out of (?:sequence|order)|unexpected (?:data|input|command)|protocol violation|(?:talk|spoke|speak)\w* too (?:early|soon)|premature|early ?talk/i;

/**
 * Whether the replies do not match commands sent together, or a refusal may be caused by that. After the final dot it
 * is too late to repeat the transaction.
 */
function isAgainstPipelining(end: Accepted | Stop): boolean {
	if (end.phase === 'dot') {
		return false;
	}
	if (end.by === 'reply') {
		const {code, enhanced, text} = end.reply;
		// RFC 3463 §3.6: these codes are about commands, though many servers use 5.5.0 for recipients. Replies that
		// mean "not understood" are tried again with HELO.
		const isAboutCommand =
			enhanced === null ? end.phase === 'mail' && !demandsTls(end.reply) : /^5\.5\.[124]/.test(enhanced);
		return code < 400 || (code >= 500 && isAboutCommand && !misunderstood.has(code)) || pipeliningWords.test(text);
	}
	// Some servers discard what arrives together with MAIL, and then wait for it.
	return (
		end.by === 'loss' &&
		(end.cause === 'outOfStep' || ((end.cause ?? 'silent') === 'silent' && end.phase === 'rcpt'))
	);
}

/** Some old servers close the connection on unknown commands. TLS and authentication need EHLO. */
function isClosedAtEhlo({host, isHeloOnly}: Plan, end: Accepted | Stop): boolean {
	const needsEhlo = host.login !== null || host.tls === 'unverified' || host.tls === 'required';
	return end.by === 'loss' && end.phase === 'ehlo' && end.cause === 'closed' && !isHeloOnly && !needsEhlo;
}

/** The fallbacks of R1.14 and R1.15: first a smaller ClientHello, then plain text where it is allowed. */
function nextHello({host, hello}: Plan, end: Stop & {readonly by: 'tls'}): Hello | null {
	if (hello === 'usual' && end.failure === 'validation-failure' && !speaksNoTls(end.errno)) {
		return 'reduced';
	}
	return hello !== 'none' && mayDoWithoutTls(host) ? 'none' : null;
}

/** How long, and for how many addresses, observations about mail servers are remembered. */
const retentionMs = 3 * 86_400_000;
const maxRetained = 10_000;
const keyOf = ({address, port}: Host) => `${address} ${port}`;

/** Mail servers that offer PIPELINING but mishandle it. */
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
		this.#until.set(keyOf(host), this.#clock.monotonic() + retentionMs);
	}
}

/**
 * Addresses that accepted messages only with a smaller ClientHello or in plain text, so that later attempts start with
 * that. Used only where TLS is optional. A mail server that starts to require TLS is removed.
 */
export class BrokenTls {
	readonly #clock: Pick<Clock, 'monotonic'>;
	readonly #known = new LRUCache<string, {readonly hello: Hello; readonly until: number}>(atMost(maxRetained));
	/** Addresses where a handshake failed and it is not known yet what works instead. */
	readonly #failed = new LRUCache<string, true>(atMost(maxRetained));

	constructor(clock: Pick<Clock, 'monotonic'>) {
		this.#clock = clock;
	}

	/** Returns how to start TLS with a host. */
	helloFor(host: Host): Hello {
		const key = keyOf(host);
		const known = mayDoWithoutTls(host) ? this.#known.get(key) : undefined;
		if (known === undefined || known.until > this.#clock.monotonic()) {
			return known?.hello ?? 'usual';
		}
		this.#known.delete(key);
		return 'usual';
	}

	/** Records what a conversation revealed about the host's TLS. */
	learn({host, hello, session}: Plan, {end, used}: Conversation): void {
		if (session !== null || !mayDoWithoutTls(host)) {
			return;
		}
		const key = keyOf(host);
		if (end.by === 'tls') {
			this.#known.delete(key);
			// A server that temporarily refuses TLS may accept it next time.
			if (end.failure === 'validation-failure') {
				this.#failed.set(key, true);
			}
		} else if (end.by === 'reply' && demandsTls(end.reply)) {
			this.#known.delete(key); // It requires TLS, which may work now.
		} else if (used !== null && this.#failed.delete(key) && hello !== 'usual') {
			this.#known.set(key, {hello, until: this.#clock.monotonic() + retentionMs});
		}
	}
}

function mayDoWithoutTls({tls, implicitTls}: Host): boolean {
	return tls === 'opportunistic' && !implicitTls;
}

/** After `remainingMs` the message expires, and only data being sent may continue; `null` if it does not expire. */
function createTryLimits(
	{attemptDeadlineMs: deadlineMs, silence}: Pick<TryOptions, 'attemptDeadlineMs' | 'silence'>,
	remainingMs: number | null,
	signal?: AbortSignal,
): TryLimits {
	let connection: SmtpConnection | null = null;
	let isCommitted = false;
	let isLate = false;
	const deadline = setTimeout(() => {
		isLate = true;
		connection?.fail(`the attempt took longer than ${deadlineMs} ms`);
	}, deadlineMs);
	const stop = () => {
		if (!isCommitted) {
			connection?.fail('stopped');
		}
	};
	const expire = () => {
		if (!isCommitted) {
			isLate = true;
			connection?.fail('the message expired before the mail server accepted it');
		}
	};
	const giveUp = () => {
		isLate = true;
		connection?.fail('the server did not reply, and the session was needed for other messages', 'silent');
	};
	const expiry = remainingMs !== null && remainingMs < deadlineMs ? setTimeout(expire, remainingMs) : undefined;
	signal?.addEventListener('abort', stop, {once: true});
	return {
		use(connectionInUse) {
			connection = connectionInUse;
			connectionInUse.watchSilence({...silence, began: () => silence.began(giveUp)});
		},
		committed(committed) {
			isCommitted = committed;
			// A mail server that has all data may have accepted the message: giving up would deliver it twice.
			connection?.watchSilence(null);
		},
		isOver: () => isLate || signal?.aborted === true,
		done() {
			clearTimeout(deadline);
			clearTimeout(expiry);
			signal?.removeEventListener('abort', stop);
		},
	};
}

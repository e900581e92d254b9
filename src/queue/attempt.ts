import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {type Priority, readExtras, startOf} from '../mail/message.ts';
import {
	type Attempt,
	type AttemptResult,
	isPossibleDuplicate,
	maxPossibleDuplicates,
	type Outcome,
	type Phase,
} from '../mail/outcome.ts';
import {endOfLife, expiringIn, type OwnRetry, type Retry, resolveRetry} from '../mail/retry.ts';
import type {Precedence, Route} from '../mail/route.ts';
import {decideNext, type JudgedAttempt, triedPart} from '../outcome/settle.ts';
import type {Claimed} from '../store/queue/claims.ts';
import type {ClaimPermit, ClaimResult, TravelTerms} from './claim-permit.ts';
import {isBlock} from './pace/blocks.ts';
import {fromSources} from './pace/choose-route.ts';
import type {SiteEnd} from './pace/site-state.ts';
import type {QueueClaims, QueueObserver} from './queue-claims.ts';

/** A finished message for one recipient, ready to be sent. */
export type ComposedMessage = {
	readonly mail: Uint8Array;
	readonly subject: string;
	readonly envelopeFrom: string;
	/** The X-Mailctl-Ref token, also the ENVID of the envelope. */
	readonly ref: string;
	/** The target of the message's first tracked link, or `null` if no link is tracked. */
	readonly firstLink: string | null;
	/** The number of different tracked links. */
	readonly links: number;
	/** Whether a header contains an address that is not ASCII, the recipient's or another one (RFC 6532). */
	readonly smtputf8: boolean;
};

/**
 * Why a message could not be prepared. With `waitMs`, preparing it can be attempted again after that time. With
 * `isOurs`, the message is not the cause, so it does not count as an attempt.
 */
export type Unmade = {
	readonly reason: string;
	readonly message: string;
	readonly waitMs?: number;
	readonly isOurs?: boolean;
};

export type Rendered =
	| {readonly ok: true; readonly message: ComposedMessage}
	| {readonly ok: false; readonly unmade: Unmade};

/** Prepares messages. */
export type MessageRendering = {
	/** Renders, composes and signs the message in a renderer thread. */
	readonly render: (recipient: Claimed, priority: Priority) => Promise<Rendered>;
	/** Called once the outcome is on stable storage. */
	readonly release: (recipient: Claimed) => void;
};

/** Delivers messages by their routes: through an SMTP worker, to a captured file, or to the simulator. */
export type MessageDelivery = {
	/**
	 * Delivers the message. `connections` is how many connections the provider may have now. No mail server is
	 * contacted after `endsAt` (milliseconds).
	 */
	readonly deliver: (
		recipient: Claimed,
		rendered: ComposedMessage,
		route: Omit<Route, 'warmUp'>,
		connections: number,
		endsAt: number,
		precedence: Precedence | null,
	) => Promise<AttemptResult>;
	/** Counts the recipient's earlier attempts that may have been delivered although no reply arrived. */
	readonly countDoubtful: (recipient: Claimed) => Promise<number>;
	/** Called once the outcome is on stable storage. */
	readonly recorded: (recipient: Claimed) => void;
};

/** The scheduler's part in the attempts of a permit. */
type AttemptProgress = {
	/** Called when the recipients are claimed, before their attempts start. */
	readonly claimed: (permit: ClaimPermit, result: ClaimResult) => void;
	/** Returns the terms that apply now, or `null` if the provider is backing off. */
	readonly termsOf: (permit: ClaimPermit) => TravelTerms | null;
	/** Called once the outcome is on stable storage. `end` is what the attempt reveals about the provider. */
	readonly settled: (permit: ClaimPermit, verdict: JudgedAttempt['verdict'], end: SiteEnd | null) => void;
};

export type AttemptsOptions = {
	readonly rendering: MessageRendering;
	readonly delivery: MessageDelivery;
	/** The current retry rules. A destination may override them, and a workspace may have a lifetime of its own. */
	readonly retry: () => Retry;
	/** The fixed wait before this recipient is retried, in milliseconds, or `undefined` to follow the schedule. */
	readonly fixedWaitOf: (recipient: Claimed) => number | undefined;
	readonly clock: Clock;
	readonly random: () => number;
	/** Whether the error means that the store is unavailable right now. */
	readonly isUnavailable: (error: unknown) => boolean;
	readonly observer: Pick<QueueObserver, 'faulted' | 'storeFailed'>;
};

/** A finished attempt before it is evaluated. `rendered` is `null` if the message was not rendered. */
type Ended = Pick<JudgedAttempt, 'result' | 'rendered'>;
type UnjudgedAttempt = Ended & Pick<JudgedAttempt, 'crashes'>;

/** Phases before the mail server has accepted our session. A reply in one of them is unrelated to the message. */
const handshake: ReadonlySet<Phase> = new Set<Phase>(['route', 'connect', 'greeting', 'ehlo', 'starttls', 'auth']);
/** The simulator always counts as healthy. */
const healthy: SiteEnd = {kind: 'answered', hasReplied: true, replies: [], reason: ''};

/**
 * Takes recipients through their attempts: claim, render, deliver, settle. Determines the consequences for the
 * recipient and for its provider; the scheduler decides what is claimed and when.
 */
export class Attempts {
	readonly #options: AttemptsOptions;
	readonly #claims: Pick<QueueClaims, 'claim' | 'record'>;
	readonly #progress: AttemptProgress;

	constructor(options: AttemptsOptions, claims: Pick<QueueClaims, 'claim' | 'record'>, progress: AttemptProgress) {
		this.#options = options;
		this.#claims = claims;
		this.#progress = progress;
	}

	/** Claims the recipients that the permit allows and makes one attempt for each. */
	async run(permit: ClaimPermit): Promise<void> {
		const {recipients, result} = await this.#claims.claim(permit);
		this.#progress.claimed(permit, result);
		await Promise.all(recipients.map(recipient => this.#attempt(permit, recipient)));
	}

	async #attempt(permit: ClaimPermit, recipient: Claimed): Promise<void> {
		const {rendering, delivery} = this.#options;
		const attempt = await this.#try(permit, recipient);
		const {recorded, end} = this.#evaluate(permit, recipient, attempt);
		await this.#claims.record(recorded);
		rendering.release(recipient);
		delivery.recorded(recipient);
		this.#progress.settled(permit, recorded.verdict, end);
	}

	/**
	 * Makes the attempt and handles exceptions. The first unexpected error releases the recipient, the second one fails
	 * it. An unavailable store is not held against the recipient.
	 */
	async #try(permit: ClaimPermit, recipient: Claimed): Promise<UnjudgedAttempt> {
		const {isUnavailable, observer} = this.#options;
		try {
			return {...(await this.#send(permit, recipient)), crashes: recipient.crashes};
		} catch (error) {
			if (!isUnavailable(error)) {
				return this.#afterCrash(recipient, error);
			}
			observer.storeFailed(error);
			return {...this.#unsent(recipient, {kind: 'released'}), crashes: recipient.crashes};
		}
	}

	/** Renders and delivers the message of a claimed recipient. A recipient past its lifetime is released. */
	async #send(permit: ClaimPermit, recipient: Claimed): Promise<Ended> {
		const {rendering, delivery, clock} = this.#options;
		const unsent = (outcome: Outcome) => this.#unsent(recipient, outcome);
		const endsAt = endOfLife(startOf(recipient), this.#retryOf(recipient, permit.route.retry).lifetime);
		const isOver = () => clock.now() >= endsAt;
		if (recipient.stop) {
			// The suppression may be newer than the message.
			return unsent({kind: 'suppressed', reason: recipient.stop});
		}
		if (recipient.sender_id === null) {
			return unsent({
				kind: 'errored',
				reason: 'sender_not_available',
				message: 'The sender was removed or disabled.',
			});
		}
		if (isOver()) {
			return unsent({kind: 'released'});
		}
		const rendered = await rendering.render(recipient, permit.queue.priority);
		if (!rendered.ok) {
			return unsent(toOutcome(rendered.unmade));
		}
		const terms = this.#progress.termsOf(permit);
		if (terms === null || isOver()) {
			return unsent({kind: 'released'});
		}
		const {subject, firstLink, links} = rendered.message;
		const {route, connections, precedence} = terms;
		const result = await delivery.deliver(recipient, rendered.message, route, connections, endsAt, precedence);
		return {result: await this.#endDoubtful(recipient, result), rendered: {subject, firstLink, links}};
	}

	/** Determines what to record about the attempt, and what it reveals about the provider. */
	#evaluate(
		permit: ClaimPermit,
		recipient: Claimed,
		attempt: UnjudgedAttempt,
	): {readonly recorded: JudgedAttempt; readonly end: SiteEnd | null} {
		try {
			const isSimulated = this.#options.fixedWaitOf(recipient) !== undefined;
			const end = isSimulated ? healthy : siteEnd(attempt.result, permit.route, recipient.destination);
			// A problem between this machine and its relay is not the message's, so the attempt does not count (R1.8).
			const result = end?.kind === 'locked_out' ? releaseUncounted(attempt.result, end.reason) : attempt.result;
			return {recorded: this.#judge(recipient, {...attempt, result}, permit.route.retry), end};
		} catch (error) {
			this.#options.observer.faulted(error, recipient);
			const {outcome, sentAt} = attempt.result;
			// A message that a mail server has accepted must not be sent again.
			const isAccepted = outcome.kind === 'delivered' || outcome.kind === 'relayed';
			const {result} = this.#unsent(recipient, outcome, sentAt);
			const ended = isAccepted ? {...attempt, result} : this.#afterCrash(recipient, error);
			return {recorded: this.#judge(recipient, ended, permit.route.retry), end: null};
		}
	}

	/** Returns the result for a recipient that was not attempted. */
	untried(recipient: Claimed, retry: OwnRetry): JudgedAttempt {
		return this.#judge(
			recipient,
			{...this.#unsent(recipient, {kind: 'released'}), crashes: recipient.crashes},
			retry,
		);
	}

	/**
	 * Stops retrying after `maxPossibleDuplicates` attempts that may have been delivered, because each of them may put
	 * another duplicate into the recipient's mailbox.
	 */
	async #endDoubtful(recipient: Claimed, result: AttemptResult): Promise<AttemptResult> {
		const {outcome, attempts} = result;
		const isLast =
			recipient.attempts + 1 >= maxPossibleDuplicates &&
			outcome.kind === 'deferred' &&
			attempts.some(isPossibleDuplicate) &&
			(await this.#options.delivery.countDoubtful(recipient)) + 1 >= maxPossibleDuplicates;
		return isLast
			? {
					...result,
					outcome: {
						kind: 'bounced',
						type: 'transient',
						category: 'network',
						reason: `4.4.2 Sent ${maxPossibleDuplicates} times and may have arrived; last: ${outcome.reason}`,
						suppresses: false,
					},
				}
			: result;
	}

	#afterCrash(recipient: Claimed, error: unknown): UnjudgedAttempt {
		const crashes = recipient.crashes + 1;
		const outcome: Outcome =
			crashes < 2 ? {kind: 'released'} : {kind: 'errored', reason: 'crashes', message: String(error)};
		return {...this.#unsent(recipient, outcome), crashes};
	}

	/** Returns an outcome that was reached without an SMTP session. */
	#unsent({id: recipientId}: Claimed, outcome: Outcome, sentAt: string | null = null): Ended {
		const at = storeTime(this.#options.clock.now());
		return {result: {recipientId, outcome, attempts: [], sentAt, at}, rendered: null};
	}

	#judge(recipient: Claimed, attempt: UnjudgedAttempt, own: OwnRetry): JudgedAttempt {
		const {fixedWaitOf, clock, random} = this.#options;
		const fixedWaitMs = fixedWaitOf(recipient);
		const verdict = decideNext(
			{
				result: attempt.result,
				acceptedAt: startOf(recipient),
				attempts: recipient.attempts,
				sentBefore: recipient.sent_at !== null,
				lastReply: recipient.last_reply,
				retry: this.#retryOf(recipient, own),
				...(fixedWaitMs === undefined ? {} : {fixedWaitMs}),
			},
			clock.now(),
			random,
		);
		return {...attempt, recipient: triedPart(recipient), verdict};
	}

	#retryOf(recipient: Claimed, own: OwnRetry): Retry {
		const retry = resolveRetry(own, this.#options.retry(), recipient.queue_lifetime_s);
		const {expiresAt} = readExtras(recipient.extras);
		return expiresAt === undefined ? retry : expiringIn(Date.parse(expiresAt) - startOf(recipient), retry);
	}
}

function toOutcome({reason, message, waitMs, isOurs}: Unmade): Outcome {
	if (waitMs === undefined) {
		return {kind: 'errored', reason, message};
	}
	return isOurs
		? {kind: 'released', reason: message, waitMs}
		: {kind: 'deferred', category: 'system', reason: message, waitMs};
}

function releaseUncounted(result: AttemptResult, reason: string): AttemptResult {
	return {...result, outcome: {kind: 'released', reason}, attempts: [], uncounted: result.attempts};
}

/** Returns what the end of an attempt reveals about its provider, or `null` if no mail server was contacted. */
export function siteEnd(
	{outcome, attempts}: AttemptResult,
	{site, terms}: Pick<Route, 'site' | 'terms'>,
	destination: string,
): SiteEnd | null {
	const isAccepted = outcome.kind === 'delivered' || outcome.kind === 'relayed';
	const hasReplied = isAccepted || attempts.some(attempt => attempt.code !== null || !hasNoReply(attempt));
	const replies = attempts.filter(({code}) => code !== null && code >= 400).map(replyText);
	const endOf = (kind: SiteEnd['kind'], reason = ''): SiteEnd => ({kind, hasReplied, replies, reason});
	if (isAccepted) {
		return endOf('answered');
	}
	const last = attempts.at(-1);
	if (outcome.kind !== 'deferred') {
		// A relay may repeat another mail server's reply, so its refusal does not block the provider.
		const isAboutUs = outcome.kind === 'bounced' && terms.nextHop.kind === 'mx';
		const isBlocked = isAboutUs && isBlock(outcome.category, replies.at(-1) ?? '');
		return last && hasReplied ? {...endOf('answered'), isBlock: isBlocked} : null;
	}
	if (outcome.category === 'config' && terms.nextHop.kind === 'relay') {
		return endOf('locked_out', outcome.reason);
	}
	if (!last) {
		return null;
	}
	// If DNS fails for one domain, mail servers that serve many domains are not to blame.
	const isShared = terms.nextHop.kind === 'mx' && site !== fromSources(destination, terms.sources);
	const hostAttempts = attempts.filter(attempt => !isForbidden(attempt) && !(isShared && attempt.phase === 'route'));
	if (hostAttempts.length === 0) {
		return null;
	}
	if (hostAttempts.every(attempt => handshake.has(attempt.phase) || hasNoReply(attempt))) {
		return endOf('failed', outcome.reason);
	}
	return endOf(isThrottled(last, outcome.category) ? 'throttled' : 'answered', outcome.reason);
}

/**
 * Whether no mail server responded, or one stopped responding before it had the whole message. In both cases the next
 * message to it may have to wait just as long.
 */
function hasNoReply({phase, isSilent}: Attempt): boolean {
	return isSilent === true || handshake.has(phase);
}

/** Whether the domain's MTA-STS or DANE policy forbade delivery, which is no evidence about a shared server. */
function isForbidden({tlsResult, phase}: Attempt): boolean {
	const isTlsEnforced =
		tlsResult !== undefined && tlsResult.policy !== 'no-policy-found' && tlsResult.result !== 'success';
	return isTlsEnforced && handshake.has(phase);
}

/** Whether the mail server wants less from us (421, 4.7.x except greylisting) or hung up (RFC 5321 §3.8, R8.2). */
function isThrottled({code, enhanced}: Attempt, category: string): boolean {
	const isRateLimit = code === 421 || category === 'rate' || (enhanced?.startsWith('4.7.') ?? false);
	return code === null || (isRateLimit && category !== 'greylist');
}

function replyText({code, reply}: Attempt): string {
	return `${code} ${reply}`.replaceAll('\n', ' ');
}

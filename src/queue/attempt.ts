import type {Clock} from '../kit/clock.ts';
import {type Priority, readExtras, startOf} from '../mail/message.ts';
import {
	type Attempt,
	type AttemptResult,
	isPossibleDuplicate,
	maxPossibleDuplicates,
	type Outcome,
	type Phase,
} from '../mail/outcome.ts';
import {endOfLife, expiringIn, type OwnRetry, type Retry, retryOf} from '../mail/retry.ts';
import type {Precedence, Route} from '../mail/route.ts';
import {decideNext, type JudgedTry, triedPart} from '../outcome/settle.ts';
import {isBlock} from '../pace/blocks.ts';
import {fromSources} from '../pace/choose-route.ts';
import type {SiteEnd} from '../pace/site-state.ts';
import type {Claimed} from '../store/queue/claims.ts';
import type {ClaimPermit, TravelTerms} from './claim-permit.ts';
import type {QueueObserver} from './queue-claims.ts';

/** A finished mail, ready for the wire. */
export type Made = {
	readonly mail: Uint8Array;
	readonly subject: string;
	readonly envelopeFrom: string;
	/** The X-Mailctl-Ref token, also the ENVID of the envelope. */
	readonly ref: string;
	/** Where the first tracked link of the mail leads; null: none is tracked. */
	readonly firstLink: string | null;
	/** How many different links of it are tracked. */
	readonly links: number;
	/** An address in its headers is not ASCII, the recipient's or another one's (RFC 6532). */
	readonly smtputf8: boolean;
};

/**
 * Why there is no mail. `waitMs`: it was not tried and may be after this time. `ours`: no fault of the mail, counts no
 * attempt.
 */
export type Unmade = {
	readonly reason: string;
	readonly message: string;
	readonly waitMs?: number;
	readonly ours?: boolean;
};

export type AttemptSteps = {
	/** Renders, composes and signs in a renderer. */
	readonly make: (
		recipient: Claimed,
		priority: Priority,
	) => Promise<{ok: true; made: Made} | {ok: false; unmade: Unmade}>;
	/**
	 * Hands the mail over by its route: to an SMTP worker, a captured file, the simulator. The site may have this many
	 * connections now. Past `endsAt` (milliseconds) no host is asked.
	 */
	readonly deliver: (
		recipient: Claimed,
		made: Made,
		route: Omit<Route, 'warmUp'>,
		connections: number,
		endsAt: number,
		precedence: Precedence | null,
	) => Promise<AttemptResult>;
	/** How many of its earlier attempts may have arrived. */
	readonly countDoubtful: (recipient: Claimed) => Promise<number>;
	/** The outcome is on stable storage. */
	readonly recorded: (recipient: Claimed) => void;
	/** Now, in the store's form. */
	readonly now: () => string;
};

export type AttemptsOptions = {
	readonly steps: AttemptSteps;
	/** The settings' rules as they are now; a destination may have its own, a workspace its own lifetime. */
	readonly retry: () => Retry;
	/** When a recipient is retried at a fixed wait instead of the schedule's (the simulator), milliseconds. */
	readonly fixedWaitOf: (recipient: Claimed) => number | undefined;
	readonly clock: Clock;
	readonly random: () => number;
	/** Whether an error says that the store cannot be used now. */
	readonly isUnavailable: (error: unknown) => boolean;
	readonly observer: Pick<QueueObserver, 'faulted' | 'storeFailed'>;
};

/** The end of an attempt, not judged yet. `made` null: it was not rendered. */
type Ended = Pick<JudgedTry, 'result' | 'made'>;
type Tried = Ended & Pick<JudgedTry, 'crashes'>;

/** Phases before the host has accepted us: their replies say nothing about the mail. */
const handshake: ReadonlySet<Phase> = new Set<Phase>(['route', 'connect', 'greeting', 'ehlo', 'starttls', 'auth']);
/** The simulator is always well. */
const well: SiteEnd = {kind: 'answered', spoke: true, replies: [], reason: ''};

/**
 * Attempts of claimed recipients, and what follows for the recipient and for its site. The scheduler calls it; nothing
 * here writes.
 */
export class Attempts {
	readonly #options: AttemptsOptions;

	constructor(options: AttemptsOptions) {
		this.#options = options;
	}

	/**
	 * One attempt. `termsNow`: how the recipient may travel now; null if its site backs off. `end`: what follows for
	 * the site.
	 */
	async run(
		permit: ClaimPermit,
		recipient: Claimed,
		termsNow: () => TravelTerms | null,
	): Promise<{readonly recorded: JudgedTry; readonly end: SiteEnd | null}> {
		const tried = await this.#try(permit, recipient, termsNow);
		try {
			const isSimulated = this.#options.fixedWaitOf(recipient) !== undefined;
			const end = isSimulated ? well : siteEnd(tried.result, permit.route, recipient.destination);
			// Trouble between us and our smarthost is no fault of the mail (R1.8).
			const result = end?.kind === 'locked_out' ? givenBack(tried.result, end.reason) : tried.result;
			return {recorded: this.#judged(recipient, {...tried, result}, permit.route.retry), end};
		} catch (error) {
			this.#options.observer.faulted(error, recipient);
			const {outcome, sentAt} = tried.result;
			// What a host has taken must not be sent again.
			const isTaken = outcome.kind === 'delivered' || outcome.kind === 'relayed';
			const {result} = this.#unsent(recipient, outcome, sentAt);
			const ended = isTaken ? {...tried, result} : this.#faulty(recipient, error);
			return {recorded: this.#judged(recipient, ended, permit.route.retry), end: null};
		}
	}

	/** What follows for a recipient that was not tried. */
	untried(recipient: Claimed, retry: OwnRetry): JudgedTry {
		return this.#judged(
			recipient,
			{...this.#unsent(recipient, {kind: 'released'}), crashes: recipient.crashes},
			retry,
		);
	}

	/**
	 * After a fault of ours the recipient is released, and after the second one it is errored. An unavailable store is
	 * no fault of the recipient.
	 */
	async #try(permit: ClaimPermit, recipient: Claimed, termsNow: () => TravelTerms | null): Promise<Tried> {
		const {isUnavailable, observer} = this.#options;
		try {
			return {...(await this.#attempt(permit, recipient, termsNow)), crashes: recipient.crashes};
		} catch (error) {
			if (!isUnavailable(error)) {
				return this.#faulty(recipient, error);
			}
			observer.storeFailed(error);
			return {...this.#unsent(recipient, {kind: 'released'}), crashes: recipient.crashes};
		}
	}

	/** From claim to result. A recipient past its lifetime is released. */
	async #attempt(
		{route, queue}: ClaimPermit,
		recipient: Claimed,
		termsNow: () => TravelTerms | null,
	): Promise<Ended> {
		const {steps, clock} = this.#options;
		const unsent = (outcome: Outcome) => this.#unsent(recipient, outcome);
		const endsAt = endOfLife(startOf(recipient), this.#retryOf(recipient, route.retry).lifetime);
		const isOver = () => clock.now() >= endsAt;
		if (recipient.stop) {
			return unsent({kind: 'suppressed', reason: recipient.stop}); // It may have happened since the message was accepted.
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
		const making = await steps.make(recipient, queue.priority);
		if (!making.ok) {
			const {reason, message, waitMs, ours} = making.unmade;
			if (waitMs === undefined) {
				return unsent({kind: 'errored', reason, message});
			}
			return ours
				? unsent({kind: 'released', reason: message, waitMs})
				: unsent({kind: 'deferred', category: 'system', reason: message, waitMs});
		}
		const terms = termsNow();
		if (terms === null || isOver()) {
			return unsent({kind: 'released'});
		}
		const {subject, firstLink, links} = making.made;
		const {route: way, connections, precedence} = terms;
		const result = await steps.deliver(recipient, making.made, way, connections, endsAt, precedence);
		return {result: await this.#endDoubtful(recipient, result), made: {subject, firstLink, links}};
	}

	/**
	 * Each attempt that may have arrived may make one more copy of the mail: the recipient gets
	 * `maxPossibleDuplicates`.
	 */
	async #endDoubtful(recipient: Claimed, result: AttemptResult): Promise<AttemptResult> {
		const {outcome, attempts} = result;
		const isLast =
			recipient.attempts + 1 >= maxPossibleDuplicates &&
			outcome.kind === 'deferred' &&
			attempts.some(isPossibleDuplicate) &&
			(await this.#options.steps.countDoubtful(recipient)) + 1 >= maxPossibleDuplicates;
		return isLast
			? {
					...result,
					outcome: {
						kind: 'bounced',
						type: 'transient',
						category: 'network',
						reason: `4.4.2 Sent ${maxPossibleDuplicates} times, it may have arrived; last: ${outcome.reason}`,
						suppresses: false,
					},
				}
			: result;
	}

	/** A fault of ours: the recipient is released, and after the second time errored. */
	#faulty(recipient: Claimed, error: unknown): Tried {
		const crashes = recipient.crashes + 1;
		const outcome: Outcome =
			crashes < 2 ? {kind: 'released'} : {kind: 'errored', reason: 'crashes', message: String(error)};
		return {...this.#unsent(recipient, outcome), crashes};
	}

	/** An outcome without a conversation. */
	#unsent({id: recipientId}: Claimed, outcome: Outcome, sentAt: string | null = null): Ended {
		return {result: {recipientId, outcome, attempts: [], sentAt, at: this.#options.steps.now()}, made: null};
	}

	#judged(recipient: Claimed, tried: Tried, own: OwnRetry): JudgedTry {
		const {fixedWaitOf, clock, random} = this.#options;
		const fixedWaitMs = fixedWaitOf(recipient);
		const verdict = decideNext(
			{
				result: tried.result,
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
		return {...tried, recipient: triedPart(recipient), verdict};
	}

	#retryOf(recipient: Claimed, own: OwnRetry): Retry {
		const retry = retryOf(own, this.#options.retry(), recipient.queue_lifetime_s);
		const {expiresAt} = readExtras(recipient.extras);
		return expiresAt === undefined ? retry : expiringIn(Date.parse(expiresAt) - startOf(recipient), retry);
	}
}

function givenBack(result: AttemptResult, reason: string): AttemptResult {
	return {...result, outcome: {kind: 'released', reason}, attempts: [], uncounted: result.attempts};
}

/** What the end of an attempt for `destination` says about its site; null: nothing, no host was asked. */
export function siteEnd(
	{outcome, attempts}: AttemptResult,
	{site, terms}: Pick<Route, 'site' | 'terms'>,
	destination: string,
): SiteEnd | null {
	const taken = outcome.kind === 'delivered' || outcome.kind === 'relayed';
	const spoke = taken || attempts.some(attempt => attempt.code !== null || !isUnheard(attempt));
	const replies = attempts.filter(({code}) => code !== null && code >= 400).map(replyText);
	const about = (kind: SiteEnd['kind'], reason = ''): SiteEnd => ({kind, spoke, replies, reason});
	if (taken) {
		return about('answered');
	}
	const last = attempts.at(-1);
	if (outcome.kind !== 'deferred') {
		// A smarthost may repeat what another host said.
		const isOurs = outcome.kind === 'bounced' && terms.nextHop.kind === 'mx';
		const isBlocked = isOurs && isBlock(outcome.category, replies.at(-1) ?? '');
		return last && spoke ? {...about('answered'), isBlock: isBlocked} : null;
	}
	if (outcome.category === 'config' && terms.nextHop.kind === 'relay') {
		return about('locked_out', outcome.reason);
	}
	if (!last) {
		return null;
	}
	// Where DNS does not answer for one domain, the hosts of many are not to blame.
	const isShared = terms.nextHop.kind === 'mx' && site !== fromSources(destination, terms.sources);
	const ofHosts = attempts.filter(attempt => !isForbidden(attempt) && !(isShared && attempt.phase === 'route'));
	if (ofHosts.length === 0) {
		return null;
	}
	if (ofHosts.every(attempt => handshake.has(attempt.phase) || isUnheard(attempt))) {
		return about('failed', outcome.reason);
	}
	return about(isThrottled(last, outcome.category) ? 'throttled' : 'answered', outcome.reason);
}

/** No host was heard, or one that stopped answering before it had the mail: the next mail may wait as long there. */
function isUnheard({phase, isSilent}: Attempt): boolean {
	return isSilent === true || handshake.has(phase);
}

/** A domain's MTA-STS or DANE forbade it: that says nothing about hosts that serve many domains. */
function isForbidden({tlsResult, phase}: Attempt): boolean {
	const demanded =
		tlsResult !== undefined && tlsResult.policy !== 'no-policy-found' && tlsResult.result !== 'success';
	return demanded && handshake.has(phase);
}

/** It wants less of us (421, 4.7.x but for greylisting), or hung up (RFC 5321 §3.8, R8.2). */
function isThrottled({code, enhanced}: Attempt, category: string): boolean {
	const limits = code === 421 || category === 'rate' || (enhanced?.startsWith('4.7.') ?? false);
	return code === null || (limits && category !== 'greylist');
}

function replyText({code, reply}: Attempt): string {
	return `${code} ${reply}`.replaceAll('\n', ' ');
}

import type {Clock} from '../kit/clock.ts';
import {
	type Attempt,
	type AttemptResult,
	isPossibleDuplicate,
	mostPossibleDuplicates,
	type Outcome,
	type Phase,
} from '../mail/outcome.ts';
import {endOfLife, type OwnRetry, type Retry, retryOf} from '../mail/retry.ts';
import type {Route} from '../mail/route.ts';
import {decideNext, type JudgedTry, type NextStep, triedRecipient} from '../outcome/settle.ts';
import {fromSources} from '../pace/choose-route.ts';
import type {SiteEnd} from '../pace/site-state.ts';
import type {Claimed} from '../store/queue/claims.ts';
import type {ClaimPermit, TravelTerms} from './destination-queues.ts';
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
	/** An address in its headers is not ASCII, the copy's own or another one's (RFC 6532). */
	readonly smtputf8: boolean;
};

/** `waitMs`: it was not tried; it may be after so long. `ours`: whatever the mail, so that it counts no try. */
export type Unmade = {
	readonly reason: string;
	readonly message: string;
	readonly waitMs?: number;
	readonly ours?: boolean;
};

export type AttemptSteps = {
	/** Renders, composes and signs in a maker thread. */
	readonly make: (recipient: Claimed) => Promise<{ok: true; made: Made} | {ok: false; unmade: Unmade}>;
	/**
	 * Hands the mail over by its way: an SMTP session in a sender thread, a captured file, the simulator. The site may have so
	 * many connections now. Past `endsAt` (milliseconds) no host is asked any more.
	 */
	readonly deliver: (
		recipient: Claimed,
		made: Made,
		route: Omit<Route, 'warmUp'>,
		connections: number,
		endsAt: number,
	) => Promise<AttemptResult>;
	/** How many of its tries before this one may have arrived. */
	readonly countDoubtful: (recipient: Claimed) => Promise<number>;
	/** The outcome is on stable storage, whatever it was. */
	readonly recorded: (recipient: Claimed) => void;
	/** Now, in the store's form. */
	readonly now: () => string;
};

type Attempted = {
	readonly result: AttemptResult;
	/** Null: it was not rendered. */
	readonly made: Pick<Made, 'subject' | 'firstLink'> | null;
};

/** What may change while a copy waits. */
type AttemptBounds = {
	/** Null: its site is left alone since it was claimed. */
	readonly termsNow: () => TravelTerms | null;
	/** When the copy is past its lifetime, milliseconds, and whether it is. */
	readonly endsAt: number;
	readonly isOver: () => boolean;
};

/** One try of one copy, from claim to result: nothing here writes. What is past its lifetime is released. */
export async function attempt(
	recipient: Claimed,
	{termsNow, endsAt, isOver}: AttemptBounds,
	steps: AttemptSteps,
): Promise<Attempted> {
	const unsent = (outcome: AttemptResult['outcome']): Attempted => ({
		result: {recipientId: recipient.id, outcome, attempts: [], sentAt: null, at: steps.now()},
		made: null,
	});

	if (recipient.stop) {
		return unsent({kind: 'suppressed', reason: recipient.stop}); // It may have happened since the message was accepted.
	}
	if (recipient.sender_id === null) {
		return unsent({kind: 'errored', reason: 'sender_not_available', message: 'The sender was removed or disabled.'});
	}
	if (isOver()) {
		return unsent({kind: 'released'});
	}
	const making = await steps.make(recipient);
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
	const {subject, firstLink} = making.made;
	const result = await steps.deliver(recipient, making.made, terms.route, terms.connections, endsAt);
	return {result: await endDoubtful(recipient, result, steps), made: {subject, firstLink}};
}

/** Each try of a mail that may have arrived may make one more of it: the recipient gets no more than so many. */
async function endDoubtful(recipient: Claimed, result: AttemptResult, steps: AttemptSteps): Promise<AttemptResult> {
	const {outcome, attempts} = result;
	const isLast =
		recipient.attempts + 1 >= mostPossibleDuplicates &&
		outcome.kind === 'deferred' &&
		attempts.some(isPossibleDuplicate) &&
		(await steps.countDoubtful(recipient)) + 1 >= mostPossibleDuplicates;
	return isLast
		? {
				...result,
				outcome: {
					kind: 'bounced',
					type: 'transient',
					category: 'network',
					reason: `4.4.2 Sent ${mostPossibleDuplicates} times, it may have arrived; last: ${outcome.reason}`,
					suppresses: false,
				},
			}
		: result;
}

/** The end of a try, not judged yet. */
export type Tried = Pick<JudgedTry, 'result' | 'made' | 'crashes'>;

export type ConclusionsOptions = {
	/** The settings' rules as they are now; a destination may have its own, a workspace its own lifetime. */
	readonly retry: () => Retry;
	/** When a copy is retried at a fixed wait instead of the schedule's (the simulator), milliseconds. */
	readonly fixedWaitOf: (recipient: Claimed) => number | undefined;
	readonly clock: Clock;
	readonly random: () => number;
	/** An attempt that cannot be judged counts as if the recipient had crashed a worker. */
	readonly observer: Pick<QueueObserver, 'faulted'>;
};

/** Before the host has taken us in nothing was said of the mail. */
const handshake: ReadonlySet<Phase> = new Set<Phase>(['route', 'connect', 'greeting', 'ehlo', 'starttls', 'auth']);
/** What the simulator plays says nothing of it. */
const well: SiteEnd = {kind: 'answered', spoke: true, replies: [], reason: ''};

/** What follows from tries, for copies and for their sites: nothing here writes. `now`: in the store's form. */
export function createConclusions(options: ConclusionsOptions & {readonly now: () => string}) {
	const {clock, fixedWaitOf} = options;

	/** What follows from a try, for the copy and (`end`) for its site. */
	function conclude(permit: ClaimPermit, recipient: Claimed, tried: Tried): JudgedTry & {readonly end: SiteEnd | null} {
		try {
			const isSimulated = fixedWaitOf(recipient) !== undefined;
			const end = isSimulated ? well : siteEnd(tried.result, permit.route, recipient.destination);
			// Whatever is wrong between us and our smarthost is no fault of the mail (R1.8).
			const result = end?.kind === 'locked_out' ? givenBack(tried.result, end.reason) : tried.result;
			return {
				...tried,
				recipient: triedRecipient(recipient),
				result,
				verdict: judged(recipient, result, permit.route),
				end,
			};
		} catch (error) {
			options.observer.faulted(error, recipient);
			const {outcome, sentAt} = tried.result;
			// What a host has taken must not be sent again.
			const isTaken = outcome.kind === 'delivered' || outcome.kind === 'relayed';
			const ended = isTaken ? {...tried, ...unsent(recipient, outcome, sentAt)} : faulty(recipient, error);
			return {
				...ended,
				recipient: triedRecipient(recipient),
				verdict: judged(recipient, ended.result, permit.route),
				end: null,
			};
		}
	}

	/** A fault of ours in the try of a copy: it is given back, and after the second time it is errored. */
	function faulty(recipient: Claimed, error: unknown): Tried {
		const crashes = recipient.crashes + 1;
		const outcome: Outcome =
			crashes < 2 ? {kind: 'released'} : {kind: 'errored', reason: 'crashes', message: String(error)};
		return {...unsent(recipient, outcome), made: null, crashes};
	}

	/** An outcome without a conversation. */
	function unsent(recipient: Claimed, outcome: Outcome, sentAt: string | null = null): Pick<Tried, 'result'> {
		return {result: {recipientId: recipient.id, outcome, attempts: [], sentAt, at: options.now()}};
	}

	function judged(recipient: Claimed, result: AttemptResult, {retry}: Pick<Route, 'retry'>): NextStep {
		const fixedWaitMs = fixedWaitOf(recipient);
		return decideNext(
			{
				result,
				acceptedAt: Date.parse(recipient.created_at),
				attempts: recipient.attempts,
				sentBefore: recipient.sent_at !== null,
				lastReply: recipient.last_reply,
				retry: retryOf(retry, options.retry(), recipient.queue_lifetime_s),
				...(fixedWaitMs === undefined ? {} : {fixedWaitMs}),
			},
			clock.now(),
			options.random,
		);
	}

	/** When the recipient is past its lifetime, milliseconds. */
	const endOf = (recipient: Claimed, {retry}: Pick<Route, 'retry'>): number =>
		endOfLife(Date.parse(recipient.created_at), retryOf(retry, options.retry(), recipient.queue_lifetime_s).lifetime);

	/** What follows for a recipient that was not tried. */
	function untried(recipient: Claimed, retry: OwnRetry): JudgedTry {
		const {result} = unsent(recipient, {kind: 'released'});
		return {
			recipient: triedRecipient(recipient),
			result,
			made: null,
			crashes: recipient.crashes,
			verdict: judged(recipient, result, {retry}),
		};
	}

	return {conclude, faulty, unsent, untried, endOf};
}

function givenBack(result: AttemptResult, reason: string): AttemptResult {
	return {...result, outcome: {kind: 'released', reason}, attempts: []};
}

/** What the end of a try of a mail to `destination` tells of its site; null: nothing, no host was asked. */
export function siteEnd(
	{outcome, attempts}: AttemptResult,
	{site, terms}: Pick<Route, 'site' | 'terms'>,
	destination: string,
): SiteEnd | null {
	const taken = outcome.kind === 'delivered' || outcome.kind === 'relayed';
	const spoke = taken || attempts.some(({code, phase}) => code !== null || !handshake.has(phase));
	const replies = attempts.filter(({code}) => code !== null && code >= 400).map(replyText);
	const about = (kind: SiteEnd['kind'], reason = ''): SiteEnd => ({kind, spoke, replies, reason});
	if (taken) {
		return about('answered');
	}
	const last = attempts.at(-1);
	if (outcome.kind !== 'deferred') {
		return last && spoke ? about('answered') : null;
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
	if (ofHosts.every(({phase}) => handshake.has(phase))) {
		return about('failed', outcome.reason);
	}
	return about(isThrottled(last, outcome.category) ? 'throttled' : 'answered', outcome.reason);
}

/** A domain's MTA-STS or DANE stood in the way: that says nothing of hosts that serve many domains. */
function isForbidden({tlsResult, phase}: Attempt): boolean {
	const demanded = tlsResult !== undefined && tlsResult.policy !== 'no-policy-found' && tlsResult.result !== 'success';
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

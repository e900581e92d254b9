import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import type {Priority} from '../../mail/message.ts';
import {relayAdvice} from '../../mail/relay-advice.ts';
import {claimMarginMs, noOwnRetry, type OwnRetry, resolveLifetime} from '../../mail/retry.ts';
import {reasonText, type WaitCode} from '../../mail/wait-reason.ts';
import type {Daemons} from '../../store/nodes.ts';
import type {RecipientFacts} from '../../store/queue/queue-summary.ts';
import {findAudit} from '../audit/store.ts';
import {textOrNull} from './timeline-text.ts';

type WhyInput = {
	readonly now: number;
	readonly daemons: Daemons;
	/** Milliseconds. */
	readonly settings: {readonly attemptDeadline: number; readonly queueLifetime: number};
	readonly ownRetryOf: (destination: string) => OwnRetry | Promise<OwnRetry>;
};

/** Returns for each recipient why no attempt is made now. */
export async function readReasons(reader: Knex, facts: readonly RecipientFacts[], input: WhyInput): Promise<Why[]> {
	const context = await readWhyContext(reader, facts, input);
	return facts.map(recipient => whyWaiting(recipient, context));
}

/** Reads everything besides the recipients themselves that decides when they are attempted. */
async function readWhyContext(
	reader: Knex,
	facts: readonly RecipientFacts[],
	{now, daemons, settings: {attemptDeadline, queueLifetime}, ownRetryOf}: WhyInput,
): Promise<WhyContext> {
	const holds = await readHolds(reader, facts);
	const destinations = [...new Set(facts.map(({destination}) => destination))];
	const ownRetries = new Map(
		await Promise.all(destinations.map(async destination => [destination, await ownRetryOf(destination)] as const)),
	);
	const {isRunning, isDelivering, isAlive} = daemons;
	return {
		now,
		isRunning,
		isDelivering,
		isAlive,
		attemptDeadlineMs: attemptDeadline,
		claimedAt({claimed_until: until}) {
			// This assumes that the claiming daemon has the same attempt deadline, since the claim does not record it.
			const at = Date.parse(until ?? '') - attemptDeadline - claimMarginMs;
			return at <= now && at > now - attemptDeadline - claimMarginMs ? storeTime(at) : null;
		},
		givesUpAt({accepted_at: accepted, destination, queue_lifetime_s: lifetimeS, expires_at: expires}) {
			const lifetime = resolveLifetime(ownRetries.get(destination) ?? noOwnRetry, queueLifetime, lifetimeS);
			const end = storeTime(Date.parse(accepted) + lifetime);
			return expires !== null && expires < end ? expires : end;
		},
		heldBy: ({id}) => holds.get(id) ?? {user: null, reason: null},
	};
}

async function readHolds(reader: Knex, facts: readonly RecipientFacts[]) {
	const holds = new Map<string, ReturnType<WhyContext['heldBy']>>();
	for (const {id, workspace_id: workspaceId, held_at: at} of facts) {
		const act = at === null ? undefined : await findAudit(reader, {workspaceId, action: 'queue.held', at});
		holds.set(id, {user: act?.actor.replace(/^(?:cli|user):/, '') ?? null, reason: textOrNull(act?.detail.reason)});
	}
	return holds;
}

/** Why a recipient is not attempted now. `waits_for` is `null` if the recipient is no longer queued. */
export type Why = Reason &
	Pick<RecipientFacts, 'id' | 'message_id' | 'workspace_id' | 'address' | 'destination' | 'state' | 'attempts'> & {
		readonly next_attempt_at: string | null;
		/** Set only if it is queued with another priority than `normal`. */
		readonly priority?: Priority;
		/** When its lifetime in the queue ends; `null` if it is not queued. */
		readonly gives_up_at: string | null;
		/** Further reasons, which would remain if the first one were resolved. */
		readonly also: readonly Reason[];
	};

/** Returns what a recipient waits for, and until when. */
export function whyWaiting(recipient: RecipientFacts, context: WhyContext): Why {
	const [first, ...also] = reasonsToWait(recipient, context);
	const {id, message_id, workspace_id, address, destination, state, attempts, next_attempt_at, priority} = recipient;
	return {
		id,
		message_id,
		workspace_id,
		address,
		destination,
		state,
		attempts,
		next_attempt_at,
		...(priority !== null && priority !== 'normal' && {priority}),
		gives_up_at: next_attempt_at === null ? null : context.givesUpAt(recipient),
		...first,
		also,
	};
}

export type WaitsFor =
	| WaitCode
	/** An attempt is in progress. */
	| 'in_flight'
	| 'hold'
	/** Its workspace is paused. */
	| 'paused'
	/** No running daemon delivers mail. */
	| 'daemon'
	/** The time of its next attempt. */
	| 'retry'
	/** Like `retry`, after the mail server greylisted the last attempt. */
	| 'greylisting'
	/** Nothing: it is due and will be claimed immediately. */
	| 'claim';

export type Reason = {
	/** `null` if it is no longer queued. */
	readonly waits_for: WaitsFor | null;
	/** The reason as a sentence for people. */
	readonly detail: string;
	readonly since: string | null;
	/** `null` if it lasts until an operator or an event changes it. */
	readonly until: string | null;
	/** What an operator can do, as a clause; `null` if only time helps. */
	readonly mend: string | null;
};

export type WhyContext = Omit<Daemons, 'silentSince'> & {
	readonly now: number;
	/** The maximum duration of an attempt, in milliseconds. */
	readonly attemptDeadlineMs: number;
	/** When the recipient was claimed; `null` if unknown. */
	readonly claimedAt: (recipient: RecipientFacts) => string | null;
	readonly givesUpAt: (recipient: RecipientFacts) => string;
	/** Who held it and why, according to the audit trail. */
	readonly heldBy: (recipient: RecipientFacts) => {readonly user: string | null; readonly reason: string | null};
};

/**
 * Returns all reasons why a recipient is not attempted now, at least one. Reasons without a known end come first, then
 * the others, the one that ends last first.
 */
function reasonsToWait(recipient: RecipientFacts, context: WhyContext): [Reason, ...Reason[]] {
	if (recipient.next_attempt_at === null) {
		return [finished(recipient)];
	}
	if (recipient.claimed_by !== null && context.isAlive(recipient.claimed_by)) {
		return [inFlight(recipient, context)];
	}
	const now = storeTime(context.now);
	const reasons = [
		held(recipient, context),
		paused(recipient),
		suspendedByOperator(recipient),
		noDaemon(context),
		...timed(recipient, now),
		...(context.isDelivering && suspendedSite(recipient, now) === null ? queueWaits(recipient, now) : []),
	].filter(reason => reason !== null);
	// With another reason besides `retry`, flushing the queue would not start an attempt, so it is not suggested.
	const all =
		reasons.length > 1
			? reasons.map(reason => (reason.waits_for === 'retry' ? {...reason, mend: null} : reason))
			: reasons;
	const [first = claimable(), ...rest] = [
		...all.filter(reason => endless.has(reason.waits_for)),
		...all
			.filter(reason => !endless.has(reason.waits_for))
			.sort((a, b) => ((a.until ?? '') > (b.until ?? '') ? -1 : 1)),
	];
	return [first, ...rest];
}

const endless: ReadonlySet<Reason['waits_for']> = new Set(['hold', 'paused', 'operator', 'daemon', 'route']);

function finished(recipient: RecipientFacts): Reason {
	const {state, state_at: at, message_id: message, tried_host: host, last_reply: reply} = recipient;
	const prefix = 'No longer queued:';
	const common = {waits_for: null, since: at, until: null};
	switch (state) {
		case 'delivered':
		case 'complained':
		case 'sent': {
			const by = host === null ? '' : ` by ${host}`;
			const what = state === 'sent' ? 'accepted by the relay' : state;
			return {...common, detail: `${prefix} ${what} at ${utc(at)}${by}${because(reply)}.`, mend: null};
		}
		default: {
			const mend = `mailctl message resend ${message} sends it again as a new message`;
			return {...common, detail: `${prefix} ${state} at ${utc(at)}${because(endReason(recipient))}.`, mend};
		}
	}
}

function endReason({end_detail: json, last_reply: reply}: RecipientFacts): string | null {
	const {reason} = JSON.parse(json ?? '{}') as {reason?: unknown};
	return typeof reason === 'string' ? reason : reply;
}

function inFlight(recipient: RecipientFacts, {claimedAt, attemptDeadlineMs}: WhyContext): Reason {
	const since = claimedAt(recipient);
	const until = since === null ? recipient.claimed_until : storeTime(Date.parse(since) + attemptDeadlineMs);
	const start = since === null ? '' : ` (started ${utc(since)})`;
	return {
		waits_for: 'in_flight',
		detail: `Attempt ${recipient.attempts + 1} is in progress${start}; it ends by ${utc(until)} at the latest.`,
		since,
		until,
		mend: null,
	};
}

function held(recipient: RecipientFacts, {heldBy}: WhyContext): Reason | null {
	if (recipient.held_at === null) {
		return null;
	}
	const {user, reason} = heldBy(recipient);
	return {
		waits_for: 'hold',
		detail: `Held since ${utc(recipient.held_at)} by ${user ?? 'an operator'}${because(reason)}.`,
		since: recipient.held_at,
		until: null,
		mend: `mailctl queue release ${recipient.id} releases it`,
	};
}

function paused({paused_at: at, pause_reason: reason, workspace_name: name}: RecipientFacts): Reason | null {
	return at === null
		? null
		: {
				waits_for: 'paused',
				detail: `The workspace ${name} has been paused since ${utc(at)}${because(reason)}.`,
				since: at,
				until: null,
				mend: `mailctl workspace resume ${name} resumes it`,
			};
}

function suspendedByOperator(facts: RecipientFacts): Reason | null {
	const {destination, suspended_at: at, suspension_reason: reason} = facts;
	return at === null
		? null
		: {
				waits_for: 'operator',
				detail: `An operator suspended all mail to ${destination} at ${utc(at)}${because(reason)}.`,
				since: at,
				until: null,
				mend: `mailctl queue resume ${destination} resumes it`,
			};
}

function noDaemon({isRunning, isDelivering}: WhyContext): Reason | null {
	if (isDelivering) {
		return null;
	}
	return {
		waits_for: 'daemon',
		detail: isRunning ? 'The running daemon does not deliver mail (MAILCTL_ROLES).' : 'No daemon is running.',
		since: null,
		until: null,
		mend: isRunning ? 'start a daemon whose MAILCTL_ROLES includes deliver' : 'mailctl serve starts one',
	};
}

/** Returns the reasons that end at a known time, whether a daemon is running or not. */
function timed(recipient: RecipientFacts, now: string): Array<Reason | null> {
	return [nextAttempt(recipient, now), suspendedSite(recipient, now)];
}

function nextAttempt(recipient: RecipientFacts, now: string): Reason | null {
	const {attempts, next_attempt_at: next, last_category: category, last_reply: reply, claimed_by: claim} = recipient;
	if (next === null || next <= now || claim !== null) {
		return null;
	}
	const until = {since: recipient.tried_at, until: next};
	if (recipient.accepted_at > now) {
		const mend = `mailctl message reschedule ${recipient.message_id} +0s sends it now`;
		return {waits_for: 'retry', detail: `Scheduled for ${utc(next)}.`, ...until, mend};
	}
	if (attempts === 0) {
		const detail = `Waiting until ${utc(next)} for its first attempt.`;
		return {waits_for: 'retry', detail, ...until, mend: `mailctl queue flush ${recipient.id} attempts it now`};
	}
	const quotedReply = reply === null ? '' : `: "${reply}"`;
	const by = recipient.tried_host === null ? '' : ` by ${recipient.tried_host}`;
	const at = recipient.tried_at === null ? '' : ` at ${utc(recipient.tried_at)}`;
	if (category === 'greylist') {
		const detail = `Waiting until ${utc(next)} for attempt ${attempts + 1}: attempt ${attempts} was greylisted${by}${at}${quotedReply}. Retrying sooner does not help.`;
		return {waits_for: 'greylisting', detail, ...until, mend: null};
	}
	const kind = category === null ? '' : ` (${category})`;
	const detail = `Waiting until ${utc(next)} for attempt ${attempts + 1}: attempt ${attempts} was deferred${kind}${by}${at}${quotedReply}.`;
	return {waits_for: 'retry', detail, ...until, mend: `mailctl queue flush ${recipient.id} attempts it now`};
}

function suspendedSite(recipient: RecipientFacts, now: string): Reason | null {
	const {site, site_suspended_until: until, site_reason: reason, site_advice: advice, destination} = recipient;
	if (site === null || until === null || until <= now) {
		return null;
	}
	const mend = `mailctl queue resume ${destination} attempts one message now`;
	if (recipient.site_waits_for === 'route') {
		const detail = `The ${site} is refusing our mail${because(reason)}. Next attempt at ${utc(until)}.`;
		return {
			waits_for: 'route',
			detail,
			since: null,
			until,
			mend: `${relayAdvice(reason ?? '')}; ${fixes.route}; ${mend}`,
		};
	}
	if (advice !== null) {
		const detail = `The provider ${site} is blocking our address${because(reason)}. Next attempt at ${utc(until)}.`;
		return {waits_for: 'suspension', detail, since: null, until, mend: `${advice}; ${mend}`};
	}
	const detail = `Sending to ${site} is backing off until ${utc(until)} after failures${because(reason)}.`;
	return {waits_for: 'suspension', detail, since: null, until, mend};
}

/**
 * Returns the reason that the daemon recorded for due mail. A stopped route also applies to mail that is not due yet.
 */
function queueWaits(recipient: RecipientFacts, now: string): Array<Reason | null> {
	const {queue_reason: reason, queue_until: until, site, destination, next_attempt_at: next} = recipient;
	const isDue = next !== null && next <= now;
	const hasEnded = until !== null && until <= now;
	// An operator's suspension is read from its own table.
	if (reason === null || reason.code === 'operator' || (!isDue && reason.code !== 'route') || hasEnded) {
		return [];
	}
	const time = until === null ? '' : ` until ${utc(until)}`;
	const explanation = because(reasonText(reason, destination));
	const detail = `Waiting for ${resources[reason.code](site || destination)}${time}${explanation}.`;
	const advice = reason.code === 'route' && 'reply' in reason ? `${relayAdvice(reason.reply)}; ` : '';
	const mend = fixes[reason.code];
	return [{waits_for: reason.code, detail, since: null, until, mend: mend === undefined ? null : `${advice}${mend}`}];
}

const resources: Record<Exclude<WaitCode, 'operator'>, (site: string) => string> = {
	pace: site => `capacity at ${site}`,
	rate: site => `the rate limit of ${site}`,
	suspension: site => site,
	warm_up: () => 'the next day',
	turn: () => 'its turn',
	route: site => `the route ${site}`,
	dns: () => 'DNS',
};

const changeInFile = (setting: string) => `${setting} in MAILCTL_DESTINATIONS_FILE can change the limit`;
const fixes: Readonly<Partial<Record<WaitCode, string>>> = {
	pace: changeInFile('connections'),
	rate: changeInFile('perMinute'),
	turn: 'a larger MAILCTL_MAX_SESSIONS allows more attempts at a time',
	route: 'mailctl doctor checks the relay',
};

function claimable(): Reason {
	const detail = 'Due now: its next attempt is about to start.';
	return {waits_for: 'claim', detail, since: null, until: null, mend: null};
}

const because = (reason: string | null) => (reason ? `: ${reason.replace(/\.$/, '')}` : '');

/** Formats a stored time for people. */
function utc(stored: string | null): string {
	return stored === null ? 'an unknown time' : `${stored.slice(0, 19).replace('T', ' ')} UTC`;
}

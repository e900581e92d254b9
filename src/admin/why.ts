import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import type {Priority} from '../mail/message.ts';
import {relayAdvice} from '../mail/relay-advice.ts';
import {claimMarginMs, lifetimeOf, noOwnRetry, type OwnRetry} from '../mail/retry.ts';
import {reasonText, type WaitCode} from '../mail/wait-reason.ts';
import {findAudit} from '../store/audit.ts';
import {listNodes} from '../store/nodes.ts';
import type {RecipientFacts} from '../store/queue/queue-summary.ts';
import {textOrNull} from './timeline-text.ts';

/** The daemons of a store, as far as the queue depends on them. */
export type Daemons = Pick<WhyContext, 'running' | 'delivering' | 'lives'> & {
	/** For compare-and-set beside them: claims of nodes last seen before this are dead; null: all are alive. */
	readonly silentSince: string | null;
};

/** Those on PostgreSQL: every node says when it was there. */
export async function daemonsOfNodes(reader: Knex, silentSince: string): Promise<Daemons> {
	const nodes = await listNodes(reader, silentSince);
	return {
		running: nodes.length > 0,
		delivering: nodes.some(({roles}) => roles.includes('deliver')),
		lives: claimedBy => nodes.some(({id}) => id === claimedBy),
		silentSince,
	};
}

type WhyInput = {
	readonly now: number;
	readonly daemons: Daemons;
	/** Milliseconds. */
	readonly settings: {readonly attemptDeadline: number; readonly queueLifetime: number};
	readonly ownRetryOf: (destination: string) => OwnRetry | Promise<OwnRetry>;
};

/** Why each of these recipients is not sent now. */
export async function readReasons(reader: Knex, facts: readonly RecipientFacts[], input: WhyInput): Promise<Why[]> {
	const context = await readWhyContext(reader, facts, input);
	return facts.map(recipient => whyWaiting(recipient, context));
}

/** What decides, in addition to the recipients themselves, when they are tried. */
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
	const {running, delivering, lives} = daemons;
	return {
		now,
		running,
		delivering,
		lives,
		attemptDeadlineMs: attemptDeadline,
		claimedAt({claimed_until: until}) {
			// A daemon with other settings cannot be noticed.
			const at = Date.parse(until ?? '') - attemptDeadline - claimMarginMs;
			return at <= now && at > now - attemptDeadline - claimMarginMs ? storeTime(at) : null;
		},
		givesUpAt({accepted_at: accepted, destination, queue_lifetime_s: ofWorkspace, expires_at: expires}) {
			const lifetime = lifetimeOf(ownRetries.get(destination) ?? noOwnRetry, queueLifetime, ofWorkspace);
			const end = storeTime(Date.parse(accepted) + lifetime);
			return expires !== null && expires < end ? expires : end;
		},
		heldBy: ({id}) => holds.get(id) ?? {user: null, reason: null},
	};
}

async function readHolds(reader: Knex, facts: readonly RecipientFacts[]) {
	const known = new Map<string, ReturnType<WhyContext['heldBy']>>();
	for (const {id, workspace_id: workspaceId, held_at: at} of facts) {
		const act = at === null ? undefined : await findAudit(reader, {workspaceId, action: 'queue.held', at});
		known.set(id, {user: act?.actor.replace(/^(?:cli|user):/, '') ?? null, reason: textOrNull(act?.detail.reason)});
	}
	return known;
}

/** Why a copy is not sent now; a copy that left the queue waits for nothing (null). */
export type Why = Reason &
	Pick<RecipientFacts, 'id' | 'message_id' | 'workspace_id' | 'address' | 'destination' | 'state' | 'attempts'> & {
		readonly next_attempt_at: string | null;
		/** In the queue, if it is not normal. */
		readonly priority?: Priority;
		/** When it is given up, tried or not; null: it is not in the queue. */
		readonly gives_up_at: string | null;
		/** What would keep it if the first reason were gone. */
		readonly also: readonly Reason[];
	};

/** What one copy waits for, and until when. */
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
	/** It is being tried. */
	| 'in_flight'
	| 'hold'
	/** Its workspace is paused. */
	| 'paused'
	/** No process delivers. */
	| 'daemon'
	/** The time of its next try. */
	| 'retry'
	/** The same; the host wants to be asked again later. */
	| 'greylisting'
	/** Nothing keeps it: it is taken at once. */
	| 'claim';

export type Reason = {
	/** Null: it is not in the queue any more. */
	readonly waits_for: WaitsFor | null;
	/** A sentence for people. */
	readonly detail: string;
	readonly since: string | null;
	/** Null: until an operator or an event changes it. */
	readonly until: string | null;
	/** What would change it, for people; null: time. */
	readonly mend: string | null;
};

export type WhyContext = {
	readonly now: number;
	/** A daemon runs. */
	readonly running: boolean;
	/** One with the role `deliver` runs. */
	readonly delivering: boolean;
	/** The daemon of this claim runs. */
	readonly lives: (claimedBy: string) => boolean;
	/** The longest that a try may take, milliseconds. */
	readonly attemptDeadlineMs: number;
	/** When the copy was claimed; null: unknown. */
	readonly claimedAt: (recipient: RecipientFacts) => string | null;
	readonly givesUpAt: (recipient: RecipientFacts) => string;
	/** Who held it and why, as the audit trail knows. */
	readonly heldBy: (recipient: RecipientFacts) => {readonly user: string | null; readonly reason: string | null};
};

/**
 * All that keeps a copy from being tried: reasons without a known end first, then the one that ends last. At least one.
 */
function reasonsToWait(recipient: RecipientFacts, context: WhyContext): [Reason, ...Reason[]] {
	if (recipient.next_attempt_at === null) {
		return [over(recipient)];
	}
	if (recipient.claimed_by !== null && context.lives(recipient.claimed_by)) {
		return [inFlight(recipient, context)];
	}
	const now = storeTime(context.now);
	const found = [
		held(recipient, context),
		paused(recipient),
		suspendedByOperator(recipient),
		nobody(context),
		...timed(recipient, now),
		...(context.delivering && suspendedSite(recipient, now) === null ? queueWaits(recipient, now) : []),
	].filter(reason => reason !== null);
	// Where something else keeps it too, a flush alone would not get it tried.
	const all =
		found.length > 1
			? found.map(reason => (reason.waits_for === 'retry' ? {...reason, mend: null} : reason))
			: found;
	const [first = claimable(), ...others] = [
		...all.filter(reason => endless.has(reason.waits_for)),
		...all
			.filter(reason => !endless.has(reason.waits_for))
			.sort((a, b) => ((a.until ?? '') > (b.until ?? '') ? -1 : 1)),
	];
	return [first, ...others];
}

const endless: ReadonlySet<Reason['waits_for']> = new Set(['hold', 'paused', 'operator', 'daemon', 'route']);

function over(recipient: RecipientFacts): Reason {
	const {state, state_at: at, message_id: message, tried_host: host} = recipient;
	const left = 'Not in the queue any more:';
	const none = {waits_for: null, since: at, until: null};
	switch (state) {
		case 'delivered':
		case 'complained':
		case 'sent': {
			const by = host === null ? '' : ` by ${host}`;
			const what = state === 'sent' ? 'taken by the smarthost' : state;
			return {...none, detail: `${left} ${what} at ${utc(at)}${by}${because(recipient.last_reply)}.`, mend: null};
		}
		default: {
			const mend = `mailctl message resend ${message} sends it again as a new message`;
			return {...none, detail: `${left} ${state} at ${utc(at)}${because(endReason(recipient))}.`, mend};
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
	const begun = since === null ? '' : `, since ${utc(since)}`;
	return {
		waits_for: 'in_flight',
		detail: `Is being attempted right now (attempt ${recipient.attempts + 1}${begun}); it ends by ${utc(until)} at the latest.`,
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
		detail: `Is held since ${utc(recipient.held_at)} by ${user ?? 'an operator'}${because(reason)}.`,
		since: recipient.held_at,
		until: null,
		mend: `mailctl queue release ${recipient.id} lets it go`,
	};
}

function paused({paused_at: at, pause_reason: reason, workspace_name: name}: RecipientFacts): Reason | null {
	return at === null
		? null
		: {
				waits_for: 'paused',
				detail: `Its workspace ${name} is paused since ${utc(at)}${because(reason)}.`,
				since: at,
				until: null,
				mend: `mailctl workspace resume ${name} lets its mail go`,
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
				mend: `mailctl queue resume ${destination} lets it go`,
			};
}

function nobody({running, delivering}: WhyContext): Reason | null {
	if (delivering) {
		return null;
	}
	return {
		waits_for: 'daemon',
		detail: running ? 'The daemon that runs does not deliver (MAILCTL_ROLES).' : 'No daemon is running.',
		since: null,
		until: null,
		mend: running ? 'start one whose MAILCTL_ROLES has deliver' : 'mailctl serve starts it',
	};
}

/** What has a time of its own, whether the daemon runs or not. */
function timed(recipient: RecipientFacts, now: string): Array<Reason | null> {
	return [nextTry(recipient, now), suspendedSite(recipient, now)];
}

function nextTry(recipient: RecipientFacts, now: string): Reason | null {
	const {attempts, next_attempt_at: next, last_category: category, last_reply: reply, claimed_by: claim} = recipient;
	if (next === null || next <= now || claim !== null) {
		return null;
	}
	const until = {since: recipient.tried_at, until: next};
	if (recipient.accepted_at > now) {
		const mend = `mailctl message reschedule ${recipient.message_id} +0s sends it now`;
		return {waits_for: 'retry', detail: `Is scheduled for ${utc(next)}.`, ...until, mend};
	}
	if (attempts === 0) {
		const detail = `Waits until ${utc(next)} for its first try.`;
		return {waits_for: 'retry', detail, ...until, mend: `mailctl queue flush ${recipient.id} tries it now`};
	}
	const said = reply === null ? '' : `: "${reply}"`;
	const by = recipient.tried_host === null ? '' : ` by ${recipient.tried_host}`;
	const at = recipient.tried_at === null ? '' : ` at ${utc(recipient.tried_at)}`;
	if (category === 'greylist') {
		const detail = `Waits until ${utc(next)} for try ${attempts + 1}: try ${attempts} was greylisted${by}${at}${said}. The host takes it later, not sooner.`;
		return {waits_for: 'greylisting', detail, ...until, mend: null};
	}
	const kind = category === null ? '' : ` (${category})`;
	const detail = `Waits until ${utc(next)} for try ${attempts + 1}: try ${attempts} was deferred${kind}${by}${at}${said}.`;
	return {waits_for: 'retry', detail, ...until, mend: `mailctl queue flush ${recipient.id} tries it now`};
}

function suspendedSite(recipient: RecipientFacts, now: string): Reason | null {
	const {site, site_suspended_until: until, site_reason: reason, site_advice: advice, destination} = recipient;
	if (site === null || until === null || until <= now) {
		return null;
	}
	const mend = `mailctl queue resume ${destination} lets one mail try it now`;
	if (recipient.site_waits_for === 'route') {
		const detail = `Its ${site} refuses us; it is tried again at ${utc(until)}${because(reason)}.`;
		return {
			waits_for: 'route',
			detail,
			since: null,
			until,
			mend: `${relayAdvice(reason ?? '')}; ${mends.route}; ${mend}`,
		};
	}
	if (advice !== null) {
		const detail = `Its site ${site} blocks our address; it is tried again at ${utc(until)}${because(reason)}.`;
		return {waits_for: 'suspension', detail, since: null, until, mend: `${advice}; ${mend}`};
	}
	const detail = `Its site ${site} is backing off until ${utc(until)} after failures${because(reason)}.`;
	return {waits_for: 'suspension', detail, since: null, until, mend};
}

/** What the daemon says of mail that is due; where its route is stopped it matters to all. */
function queueWaits(recipient: RecipientFacts, now: string): Array<Reason | null> {
	const {queue_reason: reason, queue_until: until, site, destination, next_attempt_at: next} = recipient;
	const isDue = next !== null && next <= now;
	const isOver = until !== null && until <= now;
	// An operator's suspension is read from its table.
	if (reason === null || reason.code === 'operator' || (!isDue && reason.code !== 'route') || isOver) {
		return [];
	}
	const time = until === null ? '' : ` until ${utc(until)}`;
	const said = because(reasonText(reason, destination));
	const detail = `Waits for ${awaited[reason.code](site || destination)}${time}${said}.`;
	const advice = reason.code === 'route' && 'reply' in reason ? `${relayAdvice(reason.reply)}; ` : '';
	const mend = mends[reason.code];
	return [{waits_for: reason.code, detail, since: null, until, mend: mend === undefined ? null : `${advice}${mend}`}];
}

const awaited: Record<Exclude<WaitCode, 'operator'>, (site: string) => string> = {
	pace: site => `a place at its site ${site}`,
	rate: site => `its minute at its site ${site}`,
	suspension: site => `its site ${site}`,
	warm_up: () => 'another day',
	turn: () => 'its turn',
	route: site => `its route ${site}`,
	dns: () => 'DNS',
};

const inFile = (setting: string) => `${setting} of MAILCTL_DESTINATIONS_FILE may say otherwise`;
const mends: Readonly<Partial<Record<WaitCode, string>>> = {
	pace: inFile('connections'),
	rate: inFile('perMinute'),
	turn: 'a larger MAILCTL_MAX_SESSIONS takes more at once',
	route: 'mailctl doctor looks at the smarthost',
};

function claimable(): Reason {
	const detail = 'Nothing keeps it: it is due, and is tried at once.';
	return {waits_for: 'claim', detail, since: null, until: null, mend: null};
}

const because = (reason: string | null) => (reason ? `: ${reason.replace(/\.$/, '')}` : '');

/** A stored time for people. */
function utc(stored: string | null): string {
	return stored === null ? 'some time' : `${stored.slice(0, 19).replace('T', ' ')} UTC`;
}

import type {Knex} from 'knex';
import {pick} from '../kit/collections.ts';
import type {EventType, Recipient, RecipientState} from '../mail/message.ts';
import {type AttemptResult, isPossibleDuplicate, type Outcome} from '../mail/outcome.ts';
import {cappedWait, endOfLife, nextAttempt, type Retry} from '../mail/retry.ts';
import {isCounted} from '../mail/simulator.ts';
import {toColumns} from '../store/engine/rows.ts';
import type {Claimed} from '../store/queue/claims.ts';
import {endWaiting, type Step} from '../store/queue/open-recipients.ts';
import {announce, type Notifier, ofRecipient} from './outbox.ts';

/** The end of one attempt for a claimed recipient, before the next step is decided. */
type AttemptEnd = {
	readonly result: AttemptResult;
	readonly acceptedAt: number;
	/** The number of attempts before this one. */
	readonly attempts: number;
	/** Whether a mail server had accepted this recipient's MAIL FROM in an earlier attempt. */
	readonly sentBefore: boolean;
	/** What prevented an earlier attempt from succeeding, or `null`. */
	readonly lastReply?: string | null;
	readonly retry: Retry;
	/** Milliseconds to the next attempt if MAILCTL_RETRY_SCHEDULE does not apply (the simulator). */
	readonly fixedWaitMs?: number;
};

/** The consequences of the end of an attempt. */
type NextStep = {
	readonly state: RecipientState;
	readonly attempts: number;
	/** Milliseconds since the epoch, or `null` if the recipient leaves the queue. */
	readonly nextAttemptAt: number | null;
	readonly outcome: Outcome;
	/** The timeline entry besides `sent`; `null` for a deferral or release, which have none. */
	readonly event: EventType | null;
};

/**
 * Decides the next state of a recipient. This folder turns results and reports into states, events, suppressions and
 * webhook deliveries. Each is written in one transaction, by compare-and-set, through the store. It never contacts a
 * mail server.
 *
 * A deferral after the end of its schedule or lifetime is a transient bounce (4.4.7), and so is a release past the
 * lifetime.
 */
export function decideNext(end: AttemptEnd, now: number, random: () => number): NextStep {
	const {outcome} = end.result;
	const attempts = end.attempts + 1;
	const done = (state: RecipientState, event: EventType | null): NextStep => ({
		state,
		attempts,
		nextAttemptAt: null,
		outcome,
		event,
	});
	switch (outcome.kind) {
		case 'delivered':
			return done('delivered', 'delivered');
		case 'relayed':
			return done('sent', null);
		case 'bounced':
			return done('bounced', 'bounced');
		case 'errored':
			return {...done('errored', 'errored'), attempts: end.attempts};
		case 'suppressed':
			return {...done('suppressed', 'suppressed'), attempts: end.attempts};
		case 'released':
			if (now >= endOfLife(end.acceptedAt, end.retry.lifetime)) {
				const lastReply = outcome.reason ?? end.lastReply ?? null;
				return {...done('bounced', 'bounced'), attempts: end.attempts, outcome: expired(lastReply, end.retry)};
			}
			return {
				...waiting(end),
				attempts: end.attempts,
				nextAttemptAt: now + cappedWait(outcome.waitMs ?? 0, end.retry.schedule),
				outcome,
				event: null,
			};
		case 'deferred': {
			const {acceptedAt, retry, result, fixedWaitMs} = end;
			const isLeast = result.attempts.some(isPossibleDuplicate);
			const next =
				fixedWaitMs === undefined
					? nextAttempt(retry, {acceptedAt, now, attempts, waitMs: outcome.waitMs, isLeast}, random)
					: now + fixedWaitMs;
			return next === null
				? {...done('bounced', 'bounced'), outcome: expired(outcome.reason, retry)}
				: {...waiting(end), attempts, nextAttemptAt: next, outcome, event: null};
		}
	}
}

function waiting(end: AttemptEnd): {state: RecipientState} {
	return {state: end.sentBefore || end.result.sentAt !== null ? 'sent' : 'queued'};
}

/** `lastReply` is what prevented delivery, or `null` if no attempt was completed. */
function expired(lastReply: string | null, {expires}: Retry): Outcome {
	const deadline = expires ? 'before it expired' : 'within the queue lifetime';
	return {
		kind: 'bounced',
		type: 'transient',
		category: 'expired',
		reason: `4.4.7 Not delivered ${deadline}; ${lastReply === null ? 'no attempt was completed' : `last: ${lastReply}`}`,
		suppresses: false,
	};
}

/** How an operator removes waiting recipients: silently, or as a bounce that webhooks report. Neither suppresses. */
export type OperatorEnd = {readonly kind: 'drop' | 'cancel'} | {readonly kind: 'fail'; readonly reason: string};

/** Takes recipients out of the queue for an operator, with timeline entries. Skips those being attempted. */
export async function endByOperator(
	trx: Knex.Transaction,
	step: Step,
	end: OperatorEnd,
	eventWriter: Notifier,
): Promise<readonly Recipient[]> {
	const state = end.kind === 'fail' ? 'bounced' : 'errored';
	const ended = await endWaiting(trx, step, state);
	await announce(
		trx,
		ended.map(recipient => ({
			id: eventWriter.newId('evt'),
			...ofRecipient(recipient),
			type: state,
			occurredAt: step.now,
			recordedAt: step.now,
			detail: JSON.stringify({
				recipient: recipient.address,
				role: recipient.role,
				...endDetail(end, recipient),
			}),
			isCounted: isCounted(recipient.role, recipient.destination),
		})),
		eventWriter,
	);
	return ended;
}

function endDetail(end: OperatorEnd, {attempts}: Recipient): Record<string, unknown> {
	return end.kind === 'fail'
		? {attempt: attempts, type: 'transient', category: 'operator', reason: end.reason}
		: {reason: end.kind === 'drop' ? 'dropped' : 'cancelled'};
}

const {fields: triedFields} = toColumns(
	'id workspace_id message_id address address_key role destination subject attempts sent_at last_category last_reply',
	'created_at sealed queued tracking track_opens_at track_clicks_at',
);

/** Returns the fields of a claimed recipient that the end of its attempt needs. */
export const triedPart = (recipient: Claimed): JudgedAttempt['recipient'] => pick(recipient, triedFields);

/** The evaluated end of an attempt, to be recorded. */
export type JudgedAttempt = {
	/** The fields of the claimed recipient that are still needed. The content of its message is dropped. */
	readonly recipient: Pick<Claimed, (typeof triedFields)[number]>;
	/** The rendered subject, the first tracked link's target and the number of such links; `null` if not rendered. */
	readonly rendered: {readonly subject: string; readonly firstLink: string | null; readonly links: number} | null;
	readonly result: AttemptResult;
	readonly verdict: NextStep;
	/** The number of workers that crashed with this recipient. */
	readonly crashes: number;
};

import type {Clock} from '../mail/clock.ts';
import type {AttemptResult, Outcome} from '../mail/outcome.ts';
import type {Retry} from '../mail/retry.ts';
import {type Recorded, triedCopy} from '../outcome/record.ts';
import {judge, type Verdict} from '../outcome/settle.ts';
import type {SiteEnd} from '../pace/site.ts';
import type {Claimed} from '../store/queue/claims.ts';
import type {Grant} from './grant.ts';
import {siteEnd} from './site-end.ts';

/** The end of a try, not judged yet. */
export type Tried = Pick<Recorded, 'result' | 'made' | 'crashes'>;

export type ConclusionsOptions = {
	/** As the settings are now: both may change while running. A workspace may have a lifetime of its own. */
	readonly retry: () => Retry;
	/** When a copy is retried at a fixed wait instead of the schedule's (the simulator), milliseconds. */
	readonly fixedWaitOf: (copy: Claimed) => number | undefined;
	readonly clock: Clock;
	readonly random: () => number;
	/** What became of a copy could not be judged; that is held against the copy, as if it had taken a worker down. */
	readonly onFault: (error: unknown, copy: Claimed) => void;
};

/** What the simulator plays says nothing of it. */
const well: SiteEnd = {kind: 'answered', spoke: true, replies: [], reason: ''};

/** What follows from tries, for copies and for their sites: nothing here writes. `now`: in the store's form. */
export function createConclusions(options: ConclusionsOptions & {readonly now: () => string}) {
	const {clock, fixedWaitOf} = options;

	/** What follows from a try, for the copy and (`end`) for its site. */
	function conclude(grant: Grant, copy: Claimed, tried: Tried): Recorded & {readonly end: SiteEnd | null} {
		try {
			const isSimulated = fixedWaitOf(copy) !== undefined;
			const end = isSimulated ? well : siteEnd(tried.result, grant.way, copy.destination);
			// Whatever is wrong between us and our smarthost is no fault of the mail (R1.8).
			const result = end?.kind === 'locked_out' ? givenBack(tried.result, end.reason) : tried.result;
			return {...tried, copy: triedCopy(copy), result, verdict: judged(copy, result), end};
		} catch (error) {
			options.onFault(error, copy);
			const {outcome, sentAt} = tried.result;
			// What a host has taken must not be sent again.
			const isTaken = outcome.kind === 'delivered' || outcome.kind === 'relayed';
			const ended = isTaken ? {...tried, ...unsent(copy, outcome, sentAt)} : faulty(copy, error);
			return {...ended, copy: triedCopy(copy), verdict: judged(copy, ended.result), end: null};
		}
	}

	/** A fault of ours in the try of a copy: it is given back, and after the second time it is errored. */
	function faulty(copy: Claimed, error: unknown): Tried {
		const crashes = copy.crashes + 1;
		const outcome: Outcome =
			crashes < 2 ? {kind: 'released'} : {kind: 'errored', reason: 'crashes', message: String(error)};
		return {...unsent(copy, outcome), made: null, crashes};
	}

	/** An outcome without a conversation. */
	function unsent(copy: Claimed, outcome: Outcome, sentAt: string | null = null): Pick<Tried, 'result'> {
		return {result: {recipientId: copy.id, outcome, attempts: [], sentAt, at: options.now()}};
	}

	function judged(copy: Claimed, result: AttemptResult): Verdict {
		const fixedWaitMs = fixedWaitOf(copy);
		return judge(
			{
				result,
				acceptedAt: Date.parse(copy.created_at),
				attempts: copy.attempts,
				sentBefore: copy.sent_at !== null,
				retry: retryOf(copy),
				...(fixedWaitMs === undefined ? {} : {fixedWaitMs}),
			},
			clock.now(),
			options.random,
		);
	}

	function retryOf(copy: Claimed): Retry {
		const {schedule, lifetime} = options.retry();
		return {schedule, lifetime: copy.queue_lifetime_s === null ? lifetime : copy.queue_lifetime_s * 1000};
	}

	return {conclude, faulty, unsent};
}

function givenBack(result: AttemptResult, reason: string): AttemptResult {
	return {...result, outcome: {kind: 'released', reason}, attempts: []};
}

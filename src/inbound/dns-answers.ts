import {type Clock, inTime} from '../kit/clock.ts';
import {type DnsAnswer, type DnsAnswers, oversizedCode, type Question, questionKey, type Resolver} from '../net/dns.ts';

// DNS lookups for the verdicts on a message. The verdicts are computed in the reader thread, which has no network: it
// returns the questions it needs answered. It often has new ones once it has the answers, because one SPF record
// includes another.

/**
 * The time for all lookups of one message, after which the verdict is `temperror`. The reader's time does not count.
 */
const maxLookupMs = 5000;
/** SPF allows ten nested lookups, and MX hosts need another one for their addresses. */
const maxRounds = 15;
const maxQuestions = 200;
/** No real key or policy is longer. */
const maxTextLength = 4096;

/** The lookups that a message requires. */
export type DnsLookups = {
	/** The answers so far; grows until `done`. */
	readonly known: DnsAnswers;
	/** Resolves when no more questions are open; rejects if the message cannot be read. */
	readonly done: Promise<void>;
};

type AskOptions = {
	readonly resolver: Resolver;
	/** Returns the questions that these answers leave open. */
	readonly missing: (known: DnsAnswers) => Promise<readonly Question[]>;
	readonly clock: Pick<Clock, 'monotonic'>;
};

export function askDns(options: AskOptions): DnsLookups {
	const known = new Map<string, DnsAnswer<unknown>>();
	const done = lookUp(options, known);
	// A caller that stops waiting must not cause an unhandled rejection.
	done.catch(() => undefined);
	return {known, done};
}

async function lookUp({resolver, missing, clock}: AskOptions, known: Map<string, DnsAnswer<unknown>>): Promise<void> {
	let remainingMs = maxLookupMs;
	for (let round = 0; round < maxRounds && remainingMs > 0; round++) {
		const questions = (await missing(known)).slice(0, maxQuestions - known.size);
		if (questions.length === 0) {
			return;
		}
		const startedAt = clock.monotonic();
		const lookups = questions.map(async question => {
			const answer: DnsAnswer<unknown> = await resolver[question.type](question.name).catch(() => timedOut);
			known.set(questionKey(question), withoutOversized(answer));
		});
		await inTime(
			remainingMs,
			() => new Error('DNS did not respond in time'),
			() => Promise.all(lookups),
		).catch(() => undefined);
		remainingMs -= clock.monotonic() - startedAt;
	}
}

const timedOut = {kind: 'failed', code: 'ETIMEOUT'} as const;

function withoutOversized(answer: DnsAnswer<unknown>): DnsAnswer<unknown> {
	const isLong = (record: unknown) => typeof record === 'string' && record.length > maxTextLength;
	return answer.kind === 'found' && answer.records.some(isLong) ? {kind: 'failed', code: oversizedCode} : answer;
}

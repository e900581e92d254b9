import {ForeignWork, type ForeignWorkOptions} from '../kit/foreign-work.ts';
import type {BounceRule} from '../mail/bounce.ts';
import {uncheckedVerdicts, unreadableMessage} from '../mail/received.ts';
import {type Envelope, type InboundMail, noClues, type Reading} from '../mail/report.ts';
import type {DnsAnswers, Question} from '../net/dns.ts';

/** A job of the thread: a message, a provider's event, or the beginning of a message that may need DNS lookups. */
export type ReaderJob =
	| ({readonly kind: 'mail'} & InboundMail)
	| {readonly kind: 'event'; readonly raw: Uint8Array}
	| {
			readonly kind: 'missing';
			readonly head: Uint8Array;
			readonly envelope: Envelope | null;
			readonly answers: DnsAnswers;
	  };

export type ReaderResult = Reading | readonly Question[];

/** The rules that classify refusals from now on. */
export type NewRules = {readonly kind: 'rules'; readonly rules: readonly BounceRule[]};

/**
 * `spawn` starts a thread that reads messages in order. `restMs` is how long a thread may be idle before it is stopped.
 */
type ReaderOptions = Pick<
	ForeignWorkOptions<ReaderJob, ReaderResult, NewRules, never>,
	'spawn' | 'limitMs' | 'clock' | 'cpu' | 'observer' | 'restMs'
>;

/** The message can never be read or recorded, so it is not read again. */
export class UnreadableError extends Error {}

/** The machine was too busy, or the reader was stopped. This says nothing about the message. */
export class UnfinishedError extends Error {}

const batchSize = 16;
const maxBatchBytes = 1024 * 1024;
const defaultRestMs = 60_000;

/**
 * The thread that reads messages, which may be hostile. It starts with the first message and stops when idle, because
 * an idle thread collects no garbage: it held on to 60 MB of messages.
 */
export class MailReader {
	readonly #work: ForeignWork<ReaderJob, ReaderResult, NewRules>;
	readonly #limitMs: number;

	constructor(options: ReaderOptions) {
		this.#limitMs = options.limitMs;
		this.#work = new ForeignWork({
			restMs: defaultRestMs,
			...options,
			name: 'reader',
			noun: 'a message',
			count: 1,
			batchSize,
			maxHeld: batchSize,
			maxBytes: maxBatchBytes,
			bytesOf: job => (job.kind === 'missing' ? job.head : job.raw).length,
		});
	}

	/** Rejects with `UnreadableError`, or with `UnfinishedError` if the message may be read again. */
	async read(job: Exclude<ReaderJob, {kind: 'missing'}>): Promise<Reading> {
		return (await this.#do(job)) as Reading;
	}

	/** Returns the DNS questions still needed for the verdicts on a message. Rejects as `read` does. */
	async missing(job: Omit<Extract<ReaderJob, {kind: 'missing'}>, 'kind'>): Promise<readonly Question[]> {
		return (await this.#do({kind: 'missing', ...job})) as readonly Question[];
	}

	async #do(job: ReaderJob): Promise<ReaderResult> {
		const outcome = await this.#work.do(job);
		if (outcome.ok) {
			return outcome.result;
		}
		switch (outcome.why) {
			case 'spent':
				throw new UnreadableError(`Reading it took more than ${this.#limitMs} ms or too much memory.`);
			case 'starved':
				throw new UnfinishedError('The machine is too busy to read the message.');
			case 'stopped':
				throw new UnfinishedError('The reader was stopped.');
		}
	}

	/** Sends new rules to the running thread. A thread that starts later must be started with them. */
	classifyBy(rules: readonly BounceRule[]): void {
		this.#work.tell({kind: 'rules', rules});
	}

	stop(): Promise<void> {
		return this.#work.stop();
	}
}

/** Returns the reading for a message that cannot be read. The workspace still receives it, without its content. */
export function unreadable({message}: UnreadableError): Reading {
	return {
		kind: 'other',
		reports: [],
		clues: noClues,
		fault: message,
		message: unreadableMessage(message),
		verdicts: uncheckedVerdicts,
	};
}

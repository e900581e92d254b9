import type {BounceRule} from '../mail/bounce.ts';
import {unjudged, unreadLetter} from '../mail/received.ts';
import type {Envelope, InboundMail, Reading} from '../mail/report.ts';
import type {Answers, Question} from '../net/dns.ts';
import {ForeignWork, type ForeignWorkOptions} from '../pool/foreign-work.ts';

/**
 * What the thread is given: a mail, an event that a provider posted, or the beginning of a mail that DNS has to be
 * asked for.
 */
export type ReaderJob =
	| ({readonly kind: 'mail'} & InboundMail)
	| {readonly kind: 'event'; readonly raw: Uint8Array}
	| {
			readonly kind: 'missing';
			readonly head: Uint8Array;
			readonly envelope: Envelope | null;
			readonly answers: Answers;
	  };

export type ReaderResult = Reading | readonly Question[];

/** The rules by which refusals are judged from now on. */
export type NewRules = {readonly kind: 'rules'; readonly rules: readonly BounceRule[]};

/** `spawn`: a thread that reads mails in order. `restMs`: how long a thread may be idle before it is ended. */
type ReaderOptions = Pick<
	ForeignWorkOptions<ReaderJob, ReaderResult, NewRules, never>,
	'spawn' | 'limitMs' | 'clock' | 'cpu' | 'observer' | 'restMs'
>;

/** The mail ended its reader, twice: it is not tried again. */
export class UnreadableError extends Error {}

/** The machine had no time for the mail, or the reader was stopped: that says nothing about it. */
export class UnfinishedError extends Error {}

const batchSize = 16;
const maxBatchBytes = 1024 * 1024;
const defaultRestMs = 60_000;

/**
 * The thread that reads mails, which may be hostile. It starts with the first mail and ends when idle: an idle thread
 * collects no garbage, and kept 60 MB of the mails that it had read.
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
			noun: 'a mail',
			count: 1,
			batchSize,
			maxHeld: batchSize,
			maxBytes: maxBatchBytes,
			bytesOf: job => (job.kind === 'missing' ? job.head : job.raw).length,
		});
	}

	/** Rejects with UnreadableError, or with UnfinishedError if it may be tried again. */
	async read(job: Exclude<ReaderJob, {kind: 'missing'}>): Promise<Reading> {
		return (await this.#do(job)) as Reading;
	}

	/** What DNS has to be asked yet for the verdicts on a mail that begins so. Rejects as `read` does. */
	async missing(job: Omit<Extract<ReaderJob, {kind: 'missing'}>, 'kind'>): Promise<readonly Question[]> {
		return (await this.#do({kind: 'missing', ...job})) as readonly Question[];
	}

	async #do(job: ReaderJob): Promise<ReaderResult> {
		const end = await this.#work.do(job);
		if (end.ok) {
			return end.result;
		}
		switch (end.why) {
			case 'spent':
				throw new UnreadableError(`Reading it took longer than ${this.#limitMs} ms or too much memory.`);
			case 'starved':
				throw new UnfinishedError('The machine is too busy to read the mail.');
			case 'stopped':
				throw new UnfinishedError('The reader was stopped.');
		}
	}

	/** A thread that starts later must be started with them. */
	classifyBy(rules: readonly BounceRule[]): void {
		this.#work.tell({kind: 'rules', rules});
	}

	stop(): Promise<void> {
		return this.#work.stop();
	}
}

/** A mail that ended its reader. What it says is not known, but its workspace shall have it. */
export function unreadable({message}: UnreadableError): Reading {
	const clues = {
		addressees: [],
		envelopeIds: [],
		refs: [],
		messageIds: [],
		returnPaths: [],
		unsubscribeAddresses: [],
	};
	return {kind: 'other', reports: [], clues, fault: message, letter: unreadLetter(message), verdicts: unjudged};
}

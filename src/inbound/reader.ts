import type {BounceRule} from '../mail/bounce.ts';
import type {Reading} from '../mail/report.ts';
import {createForeignWork, type ForeignWorkOptions} from '../pool/foreign-work.ts';

/** By these rules refusals are judged from now on. */
export type NewRules = {readonly kind: 'rules'; readonly rules: readonly BounceRule[]};

/** `spawn`: a thread that reads mails in order. `restMs`: one that got nothing to read for so long is ended. */
export type ReaderOptions = Pick<
	ForeignWorkOptions<Uint8Array, Reading, NewRules, never>,
	'spawn' | 'limitMs' | 'clock' | 'cpu' | 'onCrash' | 'restMs'
>;

/** The mail took its reader down, twice: it is not tried again. */
export class UnreadableError extends Error {}

/** The machine had no time for the mail, or the reader was stopped: that says nothing about it. */
export class UnfinishedError extends Error {}

const batchSize = 16;
const mostBatchBytes = 1024 * 1024;
const usualRestMs = 60_000;

/**
 * The thread that reads what comes back, which may be hostile. It is started with the first mail and ended when none comes
 * any more: a thread that does nothing collects no garbage either, and kept 60 MB of the mails that it had read.
 */
export function createReader(options: ReaderOptions) {
	const work = createForeignWork<Uint8Array, Reading, NewRules>({
		restMs: usualRestMs,
		...options,
		name: 'reader',
		noun: 'a mail',
		count: 1,
		batchSize,
		mostHeld: batchSize,
		mostBytes: mostBatchBytes,
		bytesOf: mail => mail.length,
	});

	return {
		/** Rejects with UnreadableError, or with UnfinishedError where it may be tried again. */
		async read(mail: Uint8Array): Promise<Reading> {
			const end = await work.do(mail);
			if (end.ok) {
				return end.result;
			}
			switch (end.why) {
				case 'spent':
					throw new UnreadableError(`Reading it took longer than ${options.limitMs} ms or too much memory.`);
				case 'starved':
					throw new UnfinishedError('The machine is too busy to read the mail.');
				case 'stopped':
					throw new UnfinishedError('The reader was stopped.');
			}
		},
		/** A thread that starts later has to be started with them. */
		classifyBy: (rules: readonly BounceRule[]): void => work.tell({kind: 'rules', rules}),
		stop: work.stop,
	};
}

import {inWorker} from '../compose/render/in-worker.ts';
import {entryPoint} from '../kit/program-files.ts';
import {createTurns} from '../kit/turns.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {Reading} from '../mail/report.ts';
import type {SeenMail} from './seen-mail.ts';

/** The ways to inspect the bytes of a message, each with its input and result. */
export type MailInspections = {
	readonly mail: {readonly asked: {readonly raw: Uint8Array}; readonly seen: SeenMail};
	/** One attachment, by its index; the result is `null` if it does not exist. */
	readonly file: {
		readonly asked: {readonly raw: Uint8Array; readonly index: number};
		readonly seen: {readonly name: string; readonly content: Uint8Array} | null;
	};
	readonly report: {
		readonly asked: {readonly raw: Uint8Array; readonly rules: readonly BounceRule[]};
		readonly seen: Reading;
	};
};

export type Look<Kind extends keyof MailInspections> = {
	readonly kind: Kind;
	readonly asked: MailInspections[Kind]['asked'];
};

const worker = entryPoint('dashboard/look-worker');
const limits = {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};
/** Ten megabytes of the slowest known content take a second. */
const timeoutMs = 5000;
const turns = createTurns();

/**
 * Inspects a message in its own thread, one message at a time: large ones would block the process. `fault` is the
 * reason why it failed, as a clause.
 */
export async function inspectMail<Kind extends keyof MailInspections>(
	owner: string,
	kind: Kind,
	asked: MailInspections[Kind]['asked'],
): Promise<
	{readonly ok: true; readonly seen: MailInspections[Kind]['seen']} | {readonly ok: false; readonly fault: string}
> {
	const input: Look<Kind> = {kind, asked};
	const result = await turns(owner, () =>
		inWorker<MailInspections[Kind]['seen']>(worker, input, {timeoutMs, limits}),
	);
	return result.ok
		? {ok: true, seen: result.result}
		: {ok: false, fault: `reading it takes too ${result.spent === 'time' ? 'long' : 'much memory'}`};
}

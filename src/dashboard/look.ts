import {inWorker} from '../compose/render/in-worker.ts';
import {entryPoint} from '../kit/program-files.ts';
import {createTurns} from '../kit/turns.ts';
import type {BounceRule} from '../mail/bounce.ts';
import type {Reading} from '../mail/report.ts';
import type {SeenMail} from './seen-mail.ts';

/** What is found in the bytes of a mail, and from what. */
export type Looks = {
	readonly mail: {readonly asked: {readonly raw: Uint8Array}; readonly seen: SeenMail};
	/** A file of it, by its index; null: no such file. */
	readonly file: {
		readonly asked: {readonly raw: Uint8Array; readonly index: number};
		readonly seen: {readonly name: string; readonly content: Uint8Array} | null;
	};
	readonly report: {
		readonly asked: {readonly raw: Uint8Array; readonly rules: readonly BounceRule[]};
		readonly seen: Reading;
	};
};

export type Look<Kind extends keyof Looks> = {readonly kind: Kind; readonly asked: Looks[Kind]['asked']};

const worker = entryPoint('dashboard/look-worker');
const limits = {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};
/** Ten megabytes of the worst that is known take a second. */
const timeoutMs = 5000;
const turns = createTurns();

/**
 * Reads the bytes of a mail in a thread of its own, one mail at a time: megabytes would block the process. `fault`: why
 * it failed, a clause.
 */
export async function lookAt<Kind extends keyof Looks>(
	owner: string,
	kind: Kind,
	asked: Looks[Kind]['asked'],
): Promise<{readonly ok: true; readonly seen: Looks[Kind]['seen']} | {readonly ok: false; readonly fault: string}> {
	const look: Look<Kind> = {kind, asked};
	const ended = await turns(owner, () => inWorker<Looks[Kind]['seen']>(worker, look, {timeoutMs, limits}));
	return ended.ok
		? {ok: true, seen: ended.result}
		: {ok: false, fault: `reading it takes too ${ended.spent === 'time' ? 'long' : 'much memory'}`};
}

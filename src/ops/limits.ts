import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import type {Tools} from '../mail/operator.ts';
import {type LimitName, limitWords} from '../mail/workspace-limits.ts';
import {countOfLimit} from '../store/limits.ts';
import {Refused} from './operation.ts';

/** The workspace has reached one of its limits. */
export class LimitReached extends Refused {
	constructor(name: LimitName, limit: number) {
		const wrong = `the workspace may have at most ${limit} ${limitWords(name)}`;
		super('conflict', {
			wrong,
			next: 'remove one first, or have the operator raise the limit with mailctl workspace update',
			api: `A workspace may have at most ${limit} ${limitWords(name)}: remove one first.`,
			page: `A workspace may have at most ${limit} ${limitWords(name)}. Remove one first.`,
		});
	}
}

/** Throws `LimitReached` if `more` of something would exceed the limit. Exact within the transaction that adds them. */
export async function checkRoom(
	trx: Knex,
	{clock}: Pick<Tools, 'clock'>,
	workspaceId: string,
	name: LimitName,
	more = 1,
): Promise<void> {
	const {count, limit} = await countOfLimit(trx, workspaceId, name, storeTime(clock.now()));
	if (count + more > limit) {
		throw new LimitReached(name, limit);
	}
}

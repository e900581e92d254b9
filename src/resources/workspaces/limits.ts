import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import type {Tools} from '../../mail/operator.ts';
import {type LimitName, limitWords} from '../../mail/workspace-limits.ts';
import {countOfLimit} from '../../store/limits.ts';
import {Refused} from '../operation.ts';

/** The workspace has reached one of its limits. */
export class LimitReached extends Refused {
	constructor(name: LimitName, limit: number) {
		const sentence = `A workspace may have at most ${limit} ${limitWords(name)}. Remove one first.`;
		super('conflict', {
			wrong: `the workspace may have at most ${limit} ${limitWords(name)}`,
			next: 'remove one first, or ask the operator to raise the limit with mailctl workspace update',
			api: sentence,
			page: sentence,
		});
	}
}

/**
 * Throws `LimitReached` if adding `more` objects would exceed the limit. The result is exact only in the transaction
 * that adds them.
 */
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

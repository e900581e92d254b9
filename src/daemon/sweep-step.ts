import type {Knex} from 'knex';
import {takeTime} from '../store/engine/dialect.ts';
import type {Store} from '../store/store.ts';

/** A step of a sweep: a transaction whose statements may take long. */
export async function inStep<Result>(
	{writer}: Pick<Store, 'writer'>,
	work: (trx: Knex.Transaction) => Promise<Result>,
): Promise<Result> {
	return await writer.transaction(async trx => {
		await takeTime(trx);
		return await work(trx);
	});
}

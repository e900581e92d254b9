import type {Knex} from 'knex';

/** Tells running daemons that something they cache changed; called in the transaction that changes it. */
export async function bumpGeneration(trx: Knex.Transaction): Promise<void> {
	await trx('changes').where({id: 1}).increment('generation', 1);
}

/** The number that grows with every change by others than the daemon's own hot writes. */
export async function readGeneration(reader: Knex): Promise<number> {
	const row: {generation: number} | undefined = await reader('changes').where({id: 1}).first('generation');
	return row?.generation ?? 0;
}

import type {Knex} from 'knex';

export type Node = {readonly id: string; readonly host: string; readonly pid: number};

/** This daemon is alive at `now`; a node that was given up for dead in the meantime is there again. */
export async function beat(trx: Knex.Transaction, {id, host, pid}: Node, now: string): Promise<void> {
	await trx('nodes').insert({id, host, pid, started_at: now, seen_at: now}).onConflict('id').merge({seen_at: now});
}

export async function removeNode(trx: Knex.Transaction, id: string): Promise<void> {
	await trx('nodes').where({id}).delete();
}

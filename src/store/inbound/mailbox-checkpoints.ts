import type {Knex} from 'knex';

/** How far a mailbox was read, as whoever reads it wrote it down; null: not at all. */
export async function readCheckpoint(reader: Knex, mailbox: string): Promise<string | null> {
	const row = await reader('mailbox_checkpoints').where({mailbox}).first('position');
	return row?.position ?? null;
}

export async function saveCheckpoint(
	trx: Knex.Transaction,
	{mailbox, position, at}: {readonly mailbox: string; readonly position: string; readonly at: string},
): Promise<void> {
	await trx('mailbox_checkpoints').insert({mailbox, position, updated_at: at}).onConflict('mailbox').merge();
}

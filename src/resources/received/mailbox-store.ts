import type {Knex} from 'knex';

/** Returns how far a mailbox was read, in its reader's format; `null` if nothing was read yet. */
export async function readCheckpoint(reader: Knex, mailbox: string): Promise<string | null> {
	return (await readMailboxNote(reader, mailbox))?.position ?? null;
}

/** The state of a polled mailbox. */
export type MailboxNote = {
	/** How far it was read, in its reader's format. */
	readonly position: string;
	/** How many messages were skipped so far because they could not be read. */
	readonly skipped: number;
	/** When and why a message was last skipped; `null` if never. */
	readonly skipped_at: string | null;
	readonly skip_reason: string | null;
};

/** Returns `undefined` if nothing was read yet. */
export async function readMailboxNote(reader: Knex, mailbox: string): Promise<MailboxNote | undefined> {
	return await reader('mailbox_checkpoints')
		.where({mailbox})
		.first('position', 'skipped', 'skipped_at', 'skip_reason');
}

type Checkpoint = {
	readonly mailbox: string;
	readonly position: string;
	readonly at: string;
	/** Why messages were skipped between the previous position and this one. */
	readonly skipReasons?: readonly string[];
};

export async function saveCheckpoint(
	trx: Knex.Transaction,
	{mailbox, position, at, skipReasons = []}: Checkpoint,
): Promise<void> {
	await trx('mailbox_checkpoints').insert({mailbox, position, updated_at: at}).onConflict('mailbox').merge();
	if (skipReasons.length > 0) {
		await trx('mailbox_checkpoints')
			.where({mailbox})
			.update({skipped_at: at, skip_reason: skipReasons.at(-1)})
			.increment('skipped', skipReasons.length);
	}
}

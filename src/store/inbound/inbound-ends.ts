import type {Knex} from 'knex';
import {keptLength} from '../../mail/kept.ts';
import type {Kept} from '../../mail/report.ts';
import {rowSource} from '../engine/dialect.ts';

/** The end of a mail's reading. */
export type InboundEnd = {
	/** The row's key. */
	readonly id: string;
	readonly at: string;
	/** Why the mail itself is kept, as far as `keptLength`; null: its bytes go. */
	readonly kept: Kept | null;
	/** Of a mail that is not kept: nothing came of it, so that its row goes too. */
	readonly forgotten: boolean;
	/** How it was read, JSON text; null where it is not kept. */
	readonly reading: string | null;
	readonly fault: string | null;
};

/** Marks mails as read; those that somebody else marked meanwhile stay as they are. */
export async function markRead(trx: Knex.Transaction, ends: readonly InboundEnd[]): Promise<void> {
	// In one order: others may be writing the same rows.
	const sorted = ends.toSorted((a, b) => (a.id < b.id ? -1 : 1));
	const cut = ', raw = case when inbound.size > ? then substr(inbound.raw, 1, ?) else inbound.raw end';
	const kept = sorted.filter(end => end.kept !== null);
	await update(trx, kept, cut, [keptLength, keptLength]);
	const emptied = sorted.filter(end => end.kept === null && !end.forgotten);
	await update(trx, emptied, ', raw = ?', [Buffer.alloc(0)]);
	const forgotten = sorted.filter(end => end.kept === null && end.forgotten).map(({id}) => id);
	if (forgotten.length > 0) {
		await trx('inbound').whereIn('id', forgotten).whereRaw(isUnread).delete();
	}
}

/** Not by the index on unread mails, which would be read as a whole. */
const isUnread = "coalesce(inbound.read_at, '') = ''";

async function update(
	trx: Knex.Transaction,
	ends: readonly InboundEnd[],
	more: string,
	bindings: Knex.RawBinding[],
): Promise<void> {
	if (ends.length === 0) {
		return;
	}
	const rows = ends.map(({id, at, kept, reading, fault}) => [id, at, kept, reading, fault]);
	const source = rowSource(trx, rows, 5);
	await trx.raw(
		`update inbound set read_at = v.column2, kept = v.column3, reading = v.column4, fault = v.column5${more}
			from (${source.sql}) as v
			where inbound.id = v.column1 and ${isUnread}`,
		[...bindings, ...(source.bindings as Knex.RawBinding[])],
	);
}

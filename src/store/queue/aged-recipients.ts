import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {idFloor, idTime} from '../../mail/ids.ts';
import {rowsOf} from '../engine/dialect.ts';
import {among} from '../engine/near-ids.ts';
import type {Claimed} from './claimed.ts';
import {type ClaimWriteOptions, claimThose} from './claims.ts';

/** A copy in the queue; times in milliseconds. */
export type AgedRecipient = {
	readonly id: string;
	readonly acceptedAt: number;
	/** Null: its workspace has no lifetime of its own. */
	readonly lifetime: number | null;
	/** Neither an operator nor a pause holds it. */
	readonly goes: boolean;
};

/** The shortest lifetime that a workspace has of its own, milliseconds; null: none has. */
export async function readShortestLifetime(reader: Knex): Promise<number | null> {
	const [row]: Array<{shortest: number | null}> = await reader('workspaces').min({shortest: 'queue_lifetime_s'});
	return row?.shortest == null ? null : row.shortest * 1000;
}

/** The oldest copies in the queue behind the one with this id, of those accepted before that moment (milliseconds). */
export async function readAged(
	reader: Knex,
	{after, before, limit}: {readonly after: string; readonly before: number; readonly limit: number},
): Promise<AgedRecipient[]> {
	const rows: Array<{id: string; held_at: string | null; paused_at: string | null; lifetime: number | null}> =
		await rowsOf(
			reader,
			`select q.recipient_id as id, q.held_at, w.paused_at, w.queue_lifetime_s as lifetime
		from (select recipient_id, workspace_id, held_at from queue
			where recipient_id > ? and recipient_id < ? order by recipient_id limit ?) as q
		join workspaces as w on w.id = q.workspace_id order by q.recipient_id`,
			[after, idFloor('rcp', before), limit],
		);
	return rows.map(({id, held_at: held, paused_at: paused, lifetime}) => ({
		...{id, acceptedAt: idTime(id), goes: held === null && paused === null},
		lifetime: lifetime === null ? null : lifetime * 1000,
	}));
}

/** Claims those of the copies that nobody has or holds, due or not. */
export async function claimAged(
	trx: Knex.Transaction,
	options: ClaimWriteOptions,
	ids: readonly string[],
	lastsMs: number,
): Promise<readonly Claimed[]> {
	const at = options.clock.now();
	const [condition, bindings] = among(trx, 'q.recipient_id', ids);
	const recipients = `select d.recipient_id, d.attempts from (
		select q.recipient_id, q.attempts from queue as q
		where ${condition} and q.held_at is null
			and (select c.recipient_id from claims as c where c.recipient_id = q.recipient_id) is null
			and not exists (select 1 from workspaces as p where p.id = q.workspace_id and p.paused_at is not null)
		${options.dialect.skipLocked}) as d`;
	return await claimThose(trx, options, {recipients, bindings, most: ids.length}, {at, until: storeTime(at + lastsMs)});
}

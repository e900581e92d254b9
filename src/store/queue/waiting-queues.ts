import type {Knex} from 'knex';
import type {QueueKey} from '../../mail/route.ts';
import {rowsOf} from '../engine/dialect.ts';

/*
 * Which lanes have work. The index of what waits is sorted by lane and time: after the first copy of a lane comes a jump to
 * the next lane. So the cost is that of the lanes, however many copies wait in each.
 */

const order = 'q.destination, q.workspace_id, q.next_attempt_at';

/** The ids of the copies that come due first in each lane, as `firsts`; of several at one time it is any. */
const firsts = `firsts (id) as (
		select (select q.recipient_id from queue as q where q.held_at is null order by ${order} limit 1)
		union all
		select coalesce(
			(select q.recipient_id from queue as q where q.held_at is null
				and q.destination = p.destination and q.workspace_id > p.workspace_id order by ${order} limit 1),
			(select q.recipient_id from queue as q where q.held_at is null
				and q.destination > p.destination order by ${order} limit 1))
		from firsts join queue as p on p.recipient_id = firsts.id)`;

const isGoing = '(select w.paused_at from workspaces as w where w.id = l.workspace_id) is null';

/** Lanes with work of workspaces that are not paused, and when the first copy of each is due: what the scheduler starts from. */
export async function readWaitingQueues(reader: Knex): Promise<Array<QueueKey & {readonly due: string}>> {
	return await rowsOf(
		reader,
		`with recursive ${firsts}
		select l.destination, l.workspace_id as "workspaceId", l.next_attempt_at as due
		from firsts join queue as l on l.recipient_id = firsts.id where ${isGoing}`,
		[],
	);
}

/** Lanes with copies that a claim would get now. What is claimed is few: it is passed over copy by copy. */
export async function readDue(reader: Knex, now: string): Promise<QueueKey[]> {
	return await rowsOf(
		reader,
		`with recursive ${firsts}
		select l.destination, l.workspace_id as "workspaceId"
		from firsts join queue as l on l.recipient_id = firsts.id
		where l.next_attempt_at <= ? and ${isGoing}
			and (select q.recipient_id from queue as q
				where q.destination = l.destination and q.workspace_id = l.workspace_id and q.held_at is null and q.next_attempt_at <= ?
					and (select c.recipient_id from claims as c where c.recipient_id = q.recipient_id) is null
				order by q.next_attempt_at limit 1) is not null`,
		[now, now],
	);
}

/**
 * Ids of copies of a workspace that wait or are tried, at most so many, in no order: what has its lanes is read along them, however
 * much waits for others.
 */
export async function readOpenOf(reader: Knex, workspaceId: string, limit: number): Promise<string[]> {
	const parts = [
		['due', 'q.held_at is null'],
		['held', 'q.held_at is not null'],
	] as const;
	const destinations = parts.map(([name, part]) => {
		const after = (last: string) =>
			`(select q.destination from queue as q where ${part} and q.destination > ${last} order by q.destination limit 1)`;
		return `${name} (destination) as (
			select ${after("''")} union all select ${after(`${name}.destination`)} from ${name} where ${name}.destination is not null)`;
	});
	const recipients = parts.map(
		([name, part]) => `select q.recipient_id as id from ${name} cross join queue as q
			where q.destination = ${name}.destination and q.workspace_id = ? and ${part}`,
	);
	const rows: Array<{id: string}> = await rowsOf(
		reader,
		`with recursive ${destinations.join(', ')} ${recipients.join(' union all ')} limit ?`,
		[workspaceId, workspaceId, limit],
	);
	return rows.map(({id}) => id);
}

import type {Knex} from 'knex';
import type {Clock} from '../../kit/clock.ts';
import {groupBy} from '../../kit/group-by.ts';
import {storeTime} from '../../kit/time.ts';
import type {NewId} from '../../mail/ids.ts';
import {type QueueKey, queueKeyText} from '../../mail/route.ts';
import {type Dialect, rowsOf, textInTurn} from '../engine/dialect.ts';
import {madeBetween} from '../engine/near-ids.ts';
import type {GroupWrite} from '../engine/writer.ts';
import {type Claimed, claimedOf, type MailRow, type NewClaim, readClaimed, recipientsWithMail} from './claimed.ts';
import {addWarmUp, type WarmUpDay} from './warm-up.ts';

/** What a lane may start now. */
export type Claim = QueueKey & {
	readonly limit: number;
	/** Takes what came due last: mail just accepted does not wait for a backlog of its own lane. */
	readonly newestFirst: boolean;
	/** How long a claim lasts without its daemon, milliseconds: past it another one may take the copy if nobody knows ours. */
	readonly lastsMs: number;
	/** Whether to find out when the next copy is due, if fewer than `limit` are due now. */
	readonly asksNext: boolean;
	/** The copies count in this day of a new source, which has no more than so many; null: in none. */
	readonly warmUp: (WarmUpDay & {readonly perDay: number}) | null;
};

export type ClaimedNow = {
	readonly recipients: readonly Claimed[];
	/** When the next copy of the lane is due; null: none waits, or it was not asked. */
	readonly nextDue: string | null;
	/** Copies of the warm-up's day, these included; null: there is none. */
	readonly warmedUp: number | null;
};

export type ClaimWriteOptions = {
	readonly dialect: Dialect;
	/** Claims are marked with this daemon's id. */
	readonly boot: string;
	readonly newId: NewId;
	readonly clock: Clock;
};

/** When a transaction claims, in milliseconds, and until when, in the store's form. */
type Times = {readonly at: number; readonly until: string};

/** A query of copies in the queue, as text: ids and their tries. */
type Claimable = {
	readonly recipients: string;
	readonly bindings: readonly Knex.RawBinding[];
	readonly most: number;
};

/**
 * Claims due copies for one daemon, so few of each lane that no backlog holds up another lane's mail: all lanes of a
 * transaction in the same few statements. The time is taken here: what was written before in the same transaction is due.
 */
export function createClaimWrite({dialect, boot, newId, clock}: ClaimWriteOptions): GroupWrite<Claim, ClaimedNow> {
	async function claim(trx: Knex.Transaction, claims: readonly Claim[]): Promise<ClaimedNow[]> {
		const now = clock.now();
		const times = {
			at: now,
			until: storeTime(now + Math.max(...claims.map(({lastsMs}) => lastsMs))),
		};
		const rows = await claimDue(trx, {dialect, boot, newId}, claims, times);
		const ofQueue = groupBy(rows, row => queueKeyText({destination: row.destination, workspaceId: row.workspace_id}));
		const claimed: ClaimedNow[] = [];
		for (const one of claims) {
			const recipients = ofQueue.get(queueKeyText(one)) ?? [];
			const nextDue =
				one.asksNext && recipients.length < one.limit ? await readNextDue(trx, one, storeTime(now)) : null;
			claimed.push({recipients, nextDue, warmedUp: null});
		}
		return claimed;
	}

	/** A day's share may be nearly used up: one after the other, also of several nodes, for counting none holds the row. */
	async function claimWarm(
		trx: Knex.Transaction,
		one: Claim,
		warmUp: NonNullable<Claim['warmUp']>,
	): Promise<ClaimedNow> {
		const limit = Math.min(one.limit, warmUp.perDay - (await addWarmUp(trx, warmUp, 0)));
		const none: ClaimedNow = {recipients: [], nextDue: null, warmedUp: null};
		const [claimed = none] = limit > 0 ? await claim(trx, [{...one, limit}]) : [];
		return {...claimed, warmedUp: await addWarmUp(trx, warmUp, claimed.recipients.length)};
	}

	return {
		name: 'claim',
		rank: 2,
		async apply(trx, claims) {
			const usual = claims.filter(({warmUp}) => warmUp === null);
			const claimed = new Map<Claim, ClaimedNow>();
			for (const [index, result] of (usual.length > 0 ? await claim(trx, usual) : []).entries()) {
				claimed.set(usual[index] as Claim, result);
			}
			for (const one of claims) {
				if (one.warmUp !== null) {
					claimed.set(one, await claimWarm(trx, one, one.warmUp));
				}
			}
			return claims.map(one => claimed.get(one) as ClaimedNow);
		},
	};
}

async function claimDue(
	trx: Knex.Transaction,
	options: Pick<ClaimWriteOptions, 'dialect' | 'boot' | 'newId'>,
	claims: readonly Claim[],
	times: Times,
): Promise<Claimed[]> {
	const queues = claims.map(({newestFirst}) => dueOf(newestFirst ? 'desc' : 'asc', options.dialect));
	const now = storeTime(times.at);
	const bindings = claims.flatMap(({destination, workspaceId, limit}) => [
		...[destination, workspaceId, now],
		...[workspaceId, limit],
	]);
	const most = claims.reduce((sum, {limit}) => sum + limit, 0);
	return await claimThose(trx, options, {recipients: queues.join(' union all '), bindings, most}, times);
}

/**
 * A claim ends by result, however long the try takes: what is claimed is passed over. When it was due is left as it is:
 * moving it would cost as much as all the rest of a claim.
 */
export async function claimThose(
	trx: Knex.Transaction,
	{dialect, boot, newId}: Pick<ClaimWriteOptions, 'dialect' | 'boot' | 'newId'>,
	{recipients, bindings, most}: Claimable,
	{at, until}: Times,
): Promise<Claimed[]> {
	// Another node may have claimed a copy just before it was locked here.
	// A copy that was not tried yet may be queued by this.
	const claiming = `insert into claims (recipient_id, claimed_by, attempts, until, queued)
		select d.recipient_id, ?, d.attempts, ?, case when d.attempts = 0 then ${textInTurn(trx)} end
		from (${recipients}) as d where true
		on conflict (recipient_id) do nothing returning recipient_id as id, queued`;
	const events = Array.from({length: most}, () => newId('evt'));
	const values = [boot, until, JSON.stringify(events), ...bindings];
	if (dialect.name === 'postgres') {
		return await claimRecent(trx, claiming, values, at);
	}
	const claimed: NewClaim[] = await trx.raw(claiming, values);
	return await readClaimed(trx, claimed);
}

/** Most mail is claimed soon. No more than two days are in it, milliseconds before and after now. */
const recent = {before: 23 * 3_600_000, after: 3_600_000};

/**
 * One statement claims and reads: a round trip less. It reads what was made lately alone, for to plan for all days would take
 * longer than all the rest; what is older is read after it.
 */
async function claimRecent(
	trx: Knex.Transaction,
	claiming: string,
	values: readonly Knex.RawBinding[],
	now: number,
): Promise<Claimed[]> {
	const [from, to] = [now - recent.before, now + recent.after];
	const [recipient, ofRecipient] = madeBetween('r.id', 'rcp', from, to);
	const [message, ofMessage] = madeBetween('m.id', 'msg', from, to);
	// With an `offset`, PostgreSQL looks each copy up by itself; a join it might make of all copies of a day.
	const rows = await rowsOf<(MailRow | Record<keyof MailRow, null>) & {claimed_id: string; queued: string | null}>(
		trx,
		`with claimed as (${claiming}) select claimed.id as claimed_id, claimed.queued, found.* from claimed
		left join lateral (${recipientsWithMail} where r.id = claimed.id and ${recipient} and ${message} offset 0) as found on true`,
		[...values, ...ofRecipient, ...ofMessage],
	);
	const [found, older]: [Claimed[], NewClaim[]] = [[], []];
	for (const {claimed_id: id, queued, ...row} of rows) {
		if (row.id === null) {
			older.push({id, queued});
		} else {
			found.push(claimedOf(row, {id, queued}));
		}
	}
	return [...found, ...(await readClaimed(trx, older))];
}

/** A query of a lane's due copies. As text, for lanes may be many. */
function dueOf(order: 'asc' | 'desc', {skipLocked}: Dialect): string {
	// A part of a union takes neither order nor limit, but for a table in it. As a value a claim is looked up for each copy:
	// PostgreSQL might join by reading the whole lane.
	return `select d.recipient_id, d.attempts from (
		select q.recipient_id, q.attempts from queue as q
		where q.destination = ? and q.workspace_id = ? and q.next_attempt_at <= ? and q.held_at is null
			and (select c.recipient_id from claims as c where c.recipient_id = q.recipient_id) is null
			and not exists (select 1 from workspaces as p where p.id = ? and p.paused_at is not null)
		order by q.next_attempt_at ${order} limit ? ${skipLocked}) as d`;
}

async function readNextDue(
	trx: Knex.Transaction,
	{destination, workspaceId}: Claim,
	now: string,
): Promise<string | null> {
	const [row]: Array<{due: string | null}> = await rowsOf(
		trx,
		`select min(next_attempt_at) as due from queue
		where destination = ? and workspace_id = ? and next_attempt_at > ? and held_at is null`,
		[destination, workspaceId, now],
	);
	return row?.due ?? null;
}

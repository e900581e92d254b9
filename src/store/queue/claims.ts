import type {Knex} from 'knex';
import type {Clock} from '../../mail/clock.ts';
import {groupBy} from '../../mail/group-by.ts';
import type {NewId} from '../../mail/ids.ts';
import type {Mode, Role} from '../../mail/message.ts';
import {storeTime} from '../../mail/time.ts';
import {type LaneKey, laneText} from '../../mail/way.ts';
import {type Dialect, rowSource} from '../engine/dialect.ts';
import type {GroupWrite} from '../engine/writer.ts';
import {insertEvents} from '../events.ts';
import {addWarmUp, type WarmUpDay} from './warm-up.ts';

/** What a lane may start now. */
export type Claim = LaneKey & {
	readonly limit: number;
	/** Takes what came due last: mail just accepted does not wait for a backlog of its own lane. */
	readonly newestFirst: boolean;
	/** How far the claim moves `next_attempt_at`, milliseconds: past it another daemon may take the copy if ours is gone. */
	readonly dueAgainAfterMs: number;
	/** Whether to find out when the next copy is due, if fewer than `limit` are due now. */
	readonly asksNext: boolean;
	/** The copies count in this day of a new source, which has no more than so many; null: in none. */
	readonly warmUp: (WarmUpDay & {readonly perDay: number}) | null;
};

export type ClaimedNow = {
	readonly copies: readonly Claimed[];
	/** When the next copy of the lane is due; null: none waits, or it was not asked. */
	readonly nextDue: string | null;
	/** Copies of the warm-up's day, these included; null: there is none. */
	readonly warmedUp: number | null;
};

/** A claimed copy with everything that is needed to make and deliver it. */
export type Claimed = {
	readonly id: string;
	readonly workspace_id: string;
	readonly message_id: string;
	readonly address: string;
	readonly address_key: string;
	readonly role: Role;
	readonly destination: string;
	readonly subject: string | null;
	readonly attempts: number;
	readonly sent_at: string | null;
	/** When its last try ended. */
	readonly state_at: string;
	readonly last_category: string | null;
	readonly crashes: number;
	readonly mode: Mode;
	readonly from_address: string;
	readonly to_address: string;
	readonly reply_to: string | null;
	readonly cc: string | null;
	readonly template_id: string;
	readonly version_id: string;
	readonly data: string | null;
	readonly topic_id: string | null;
	readonly topic_code: string | null;
	readonly locale: string | null;
	readonly timezone: string | null;
	/** What the send switched off: JSON text. */
	readonly tracking: string | null;
	readonly attachments: number;
	readonly created_at: string;
	readonly workspace_name: string;
	readonly workspace_locale: string | null;
	readonly workspace_timezone: string | null;
	readonly track_opens_at: string | null;
	readonly track_clicks_at: string | null;
	readonly queue_lifetime_s: number | null;
	/** Null: the sender is gone. */
	readonly sender_id: string | null;
	readonly sender_name: string | null;
	readonly domain_id: string | null;
	/** The address was suppressed, or opted out of the message's topic, after acceptance. */
	readonly stop: 'suppressed' | 'opted_out' | null;
};

const columns = `r.id, r.workspace_id, r.message_id, r.address, r.address_key, r.role, r.destination, r.subject, r.state, r.state_at,
	r.attempts, r.sent_at, r.last_category, r.crashes,
	m.mode, m.from_address, m.to_address, m.reply_to, m.cc, m.template_id, m.version_id, m.data, m.topic_id, m.topic_code, m.locale,
	m.timezone, m.tracking, m.attachments, m.created_at,
	w.name as workspace_name, w.locale as workspace_locale, w.timezone as workspace_timezone, w.track_opens_at,
	w.track_clicks_at, w.queue_lifetime_s,
	s.id as sender_id, s.name as sender_name, s.domain_id,
	case
		when exists (select 1 from suppressions x where x.workspace_id = r.workspace_id and x.address_key = r.address_key
			and (x.mode = 'live' or m.mode = 'test')) then 'suppressed'
		when m.topic_code is not null and exists (select 1 from topic_optouts o where o.workspace_id = r.workspace_id
			and o.address_key = r.address_key and o.code = m.topic_code) then 'opted_out'
	end as stop`;

type Row = Claimed & {readonly state: string};

export type ClaimWriteOptions = {
	readonly dialect: Dialect;
	/** Claims are marked with this daemon's id. */
	readonly boot: string;
	readonly newId: NewId;
	readonly clock: Clock;
};

/** When a transaction claims, and until when: in the store's form. */
type Times = {readonly now: string; readonly until: string};

/**
 * Claims due copies for one daemon, so few of each lane that no backlog holds up another lane's mail: all lanes of a
 * transaction in the same few statements. The time is taken here: what was written before in the same transaction is due.
 */
export function createClaimWrite({dialect, boot, newId, clock}: ClaimWriteOptions): GroupWrite<Claim, ClaimedNow> {
	async function claim(trx: Knex.Transaction, claims: readonly Claim[]): Promise<ClaimedNow[]> {
		const now = clock.now();
		const times = {
			now: storeTime(now),
			until: storeTime(now + Math.max(...claims.map(({dueAgainAfterMs}) => dueAgainAfterMs))),
		};
		const rows = await selectDue(trx, dialect, boot, claims, times);
		const ofLane = groupBy(rows, row => laneText({destination: row.destination, workspaceId: row.workspace_id}));
		const claimed: ClaimedNow[] = [];
		for (const one of claims) {
			const copies = ofLane.get(laneText(one)) ?? [];
			const nextDue = one.asksNext && copies.length < one.limit ? await readNextDue(trx, one, times.now) : null;
			claimed.push({copies, nextDue, warmedUp: null});
		}
		await markClaimed(trx, boot, times, rows);
		await recordQueued(trx, newId, times.now, rows);
		return claimed;
	}

	/** A day's share may be nearly used up: one after the other, also of several nodes, for counting none holds the row. */
	async function claimWarm(
		trx: Knex.Transaction,
		one: Claim,
		warmUp: NonNullable<Claim['warmUp']>,
	): Promise<ClaimedNow> {
		const limit = Math.min(one.limit, warmUp.perDay - (await addWarmUp(trx, warmUp, 0)));
		const none: ClaimedNow = {copies: [], nextDue: null, warmedUp: null};
		const [claimed = none] = limit > 0 ? await claim(trx, [{...one, limit}]) : [];
		return {...claimed, warmedUp: await addWarmUp(trx, warmUp, claimed.copies.length)};
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

/**
 * A claim ends by result, however long the try takes: what is claimed is passed over, unless its daemon is neither this one
 * nor known any more.
 */
async function selectDue(
	trx: Knex.Transaction,
	dialect: Dialect,
	boot: string,
	claims: readonly Claim[],
	{now}: Times,
): Promise<Row[]> {
	const lanes = claims.map(({newestFirst}) => dueOf(newestFirst ? 'desc' : 'asc', dialect));
	const bindings = claims.flatMap(({destination, workspaceId, limit}) => [
		...[destination, workspaceId, now, boot],
		...[workspaceId, limit],
	]);
	return await copiesWithMail(trx).whereRaw(`r.id in (${lanes.join(' union all ')})`, bindings);
}

/** A query of the ids of a lane's due copies. As text: the query builder would take longer than the engine where lanes are many. */
function dueOf(order: 'asc' | 'desc', {skipLocked}: Dialect): string {
	// A part of a union takes neither order nor limit, but for a table in it.
	return `select d.id from (
		select q.id from recipients as q
		where q.destination = ? and q.workspace_id = ? and q.next_attempt_at <= ? and q.held_at is null
			and (q.claimed_by is null or (q.claimed_by <> ? and q.claimed_by not in (select n.id from nodes as n)))
			and not exists (select 1 from workspaces as p where p.id = ? and p.paused_at is not null)
		order by q.next_attempt_at ${order} limit ? ${skipLocked}) as d`;
}

async function readNextDue(
	trx: Knex.Transaction,
	{destination, workspaceId}: Claim,
	now: string,
): Promise<string | null> {
	const row = await trx('recipients')
		.min('next_attempt_at as due')
		.where({destination, workspace_id: workspaceId})
		.where('next_attempt_at', '>', now)
		.whereNull('held_at')
		.first<{due: string | null}>();
	return row?.due ?? null;
}

/** Copies with all that they are made of. */
function copiesWithMail(connection: Knex): Knex.QueryBuilder {
	return connection('recipients as r')
		.select(connection.raw(columns))
		.join('messages as m', 'm.id', 'r.message_id')
		.join('workspaces as w', 'w.id', 'r.workspace_id')
		.leftJoin('senders as s', function () {
			this.on('s.workspace_id', 'm.workspace_id').andOn('s.address_key', 'm.from_key').andOnNull('s.disabled_at');
		});
}

/** One copy as a claim would give it, without claiming it: to look at its mail. */
export async function readCopy(reader: Knex, workspaceId: string, id: string): Promise<Claimed | undefined> {
	return await copiesWithMail(reader).where({'r.id': id, 'r.workspace_id': workspaceId}).first();
}

async function markClaimed(
	trx: Knex.Transaction,
	boot: string,
	{now, until}: Times,
	rows: readonly Row[],
): Promise<void> {
	if (rows.length === 0) {
		return;
	}
	const {sql, bindings} = rowSource(
		trx,
		rows.map(row => [row.id]),
		1,
	);
	await trx('recipients')
		.whereRaw(`id in (select v.column1 from (${sql}) as v)`, bindings as Knex.RawBinding[])
		.update({
			claimed_by: boot,
			next_attempt_at: until,
			state: trx.raw(`case when state = 'accepted' then 'queued' else state end`),
			state_at: trx.raw(`case when state = 'accepted' then ? else state_at end`, [now]),
		});
}

/** `queued` stands once in a message's timeline: when its `to` copy is first claimed. */
async function recordQueued(trx: Knex.Transaction, newId: NewId, now: string, rows: readonly Row[]): Promise<void> {
	const first = rows.filter(row => row.state === 'accepted' && row.role === 'to');
	await insertEvents(
		trx,
		first.map(row => ({
			id: newId('evt'),
			messageId: row.message_id,
			recipientId: row.id,
			type: 'queued',
			occurredAt: now,
			recordedAt: now,
			detail: null,
		})),
	);
}

/** Lanes with work of workspaces that are not paused, and when the first copy of each is due: what the scheduler starts from. */
export async function readLanes(reader: Knex): Promise<Array<LaneKey & {readonly due: string}>> {
	return await reader('recipients')
		.select('destination', 'workspace_id as workspaceId')
		.min('next_attempt_at as due')
		.whereNotNull('next_attempt_at')
		.whereNull('held_at')
		.whereNotIn('workspace_id', pausedWorkspaces(reader))
		.groupBy('destination', 'workspace_id');
}

/** Lanes with copies that a claim would get now. */
export async function readDue(reader: Knex, now: string): Promise<LaneKey[]> {
	return await reader('recipients')
		.distinct('destination', 'workspace_id as workspaceId')
		.where('next_attempt_at', '<=', now)
		.whereNull('held_at')
		.whereNotIn('workspace_id', pausedWorkspaces(reader));
}

function pausedWorkspaces(reader: Knex): Knex.QueryBuilder {
	return reader('workspaces').select('id').whereNotNull('paused_at');
}

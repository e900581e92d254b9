import type {Knex} from 'knex';
import type {Clock} from '../../mail/clock.ts';
import {groupBy} from '../../mail/group-by.ts';
import type {NewId} from '../../mail/ids.ts';
import type {Mode, Role} from '../../mail/message.ts';
import {storeTime} from '../../mail/time.ts';
import {type LaneKey, laneText} from '../../mail/way.ts';
import type {Dialect} from '../engine/dialect.ts';
import {unanswered} from '../engine/postgres-pipeline.ts';
import type {GroupWrite} from '../engine/writer.ts';
import {insertEvents} from '../events.ts';
import {among} from './open-copies.ts';
import {addWarmUp, type WarmUpDay} from './warm-up.ts';

/** What a lane may start now. */
export type Claim = LaneKey & {
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
			until: storeTime(now + Math.max(...claims.map(({lastsMs}) => lastsMs))),
		};
		const rows = await claimDue(trx, dialect, boot, claims, times);
		const ofLane = groupBy(rows, row => laneText({destination: row.destination, workspaceId: row.workspace_id}));
		const claimed: ClaimedNow[] = [];
		for (const one of claims) {
			const copies = ofLane.get(laneText(one)) ?? [];
			const nextDue = one.asksNext && copies.length < one.limit ? await readNextDue(trx, one, times.now) : null;
			claimed.push({copies, nextDue, warmedUp: null});
		}
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
 * A claim ends by result, however long the try takes: what is claimed is passed over. When it was due is left as it is:
 * moving it would cost as much as all the rest of a claim.
 */
async function claimDue(
	trx: Knex.Transaction,
	dialect: Dialect,
	boot: string,
	claims: readonly Claim[],
	{now, until}: Times,
): Promise<Row[]> {
	const lanes = claims.map(({newestFirst}) => dueOf(newestFirst ? 'desc' : 'asc', dialect));
	const bindings = claims.flatMap(({destination, workspaceId, limit}) => [
		...[destination, workspaceId, now],
		...[workspaceId, limit],
	]);
	// Another node may have claimed a copy just before it was locked here.
	const claiming = `insert into claims (recipient_id, claimed_by, attempts, until)
		select r.id, ?, r.attempts, ? from recipients as r where r.id in (${lanes.join(' union all ')})
		on conflict (recipient_id) do nothing returning recipient_id as id`;
	const values = [boot, until, ...bindings];
	if (dialect.name === 'postgres') {
		// A round trip less.
		const {rows} = await trx.raw(
			`with claimed as (${claiming}) ${copiesWithMail} where r.id in (select id from claimed)`,
			values,
		);
		return rows;
	}
	const claimed: Array<{id: string}> = await trx.raw(claiming, values);
	if (claimed.length === 0) {
		return [];
	}
	const [condition, ids] = among(
		trx,
		'r.id',
		claimed.map(({id}) => id),
	);
	return await trx.raw(`${copiesWithMail} where ${condition}`, ids);
}

/** A query of the ids of a lane's due copies. As text, for lanes may be many. */
function dueOf(order: 'asc' | 'desc', {skipLocked}: Dialect): string {
	// A part of a union takes neither order nor limit, but for a table in it. As a value a claim is looked up for each copy:
	// PostgreSQL might join by reading the whole lane.
	return `select d.recipient_id from (
		select q.recipient_id from queue as q
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
	const answer = await trx.raw(
		`select min(next_attempt_at) as due from queue
		where destination = ? and workspace_id = ? and next_attempt_at > ? and held_at is null`,
		[destination, workspaceId, now],
	);
	const [row]: Array<{due: string | null}> = Array.isArray(answer) ? answer : answer.rows;
	return row?.due ?? null;
}

/** A query of copies with all that they are made of. As text: the query builder would take longer than the engine. */
const copiesWithMail = `select ${columns} from recipients as r
	join messages as m on m.id = r.message_id
	join workspaces as w on w.id = r.workspace_id
	left join senders as s on s.workspace_id = m.workspace_id and s.address_key = m.from_key and s.disabled_at is null`;

/** One copy as a claim would give it, without claiming it: to look at its mail. */
export async function readCopy(reader: Knex, workspaceId: string, id: string): Promise<Claimed | undefined> {
	const answer = await reader.raw(`${copiesWithMail} where r.id = ? and r.workspace_id = ?`, [id, workspaceId]);
	const rows: Claimed[] = Array.isArray(answer) ? answer : answer.rows;
	return rows[0];
}

/** A copy that was claimed before is queued; `queued` stands once in a message's timeline, when its `to` copy first is. */
async function recordQueued(trx: Knex.Transaction, newId: NewId, now: string, rows: readonly Row[]): Promise<void> {
	const first = rows.filter(({state}) => state === 'accepted');
	if (first.length === 0) {
		return;
	}
	const [condition, bindings] = among(
		trx,
		'id',
		first.map(({id}) => id),
	);
	await trx
		.raw(`update recipients set state = 'queued', state_at = ? where state = 'accepted' and ${condition}`, [
			now,
			...bindings,
		])
		.options(unanswered);
	await insertEvents(
		trx,
		first
			.filter(({role}) => role === 'to')
			.map(row => ({
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

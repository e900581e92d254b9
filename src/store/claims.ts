import type {Knex} from 'knex';
import type {NewId} from '../mail/ids.ts';
import type {Mode, Role} from '../mail/message.ts';
import {type LaneKey, laneText} from '../mail/way.ts';
import {type Dialect, rowSource} from './dialect.ts';
import {insertEvents} from './events.ts';
import {removeGoneLaneWaits} from './lane-waits.ts';
import {addWarmUp, readWarmUp, type WarmUpDay} from './warm-up.ts';
import type {GroupWrite} from './writer.ts';

/** What a lane may start now. */
export type Claim = LaneKey & {
	readonly limit: number;
	/** Takes what came due last: mail just accepted does not wait for a backlog of its own lane. */
	readonly newestFirst: boolean;
	/** Times in the store's form: now, and past the attempt deadline (the last resort if no result ever comes). */
	readonly now: string;
	readonly until: string;
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

/** Claims due copies for one daemon: lane by lane, so that no backlog stands before another one's mail. */
export function createClaimWrite(dialect: Dialect, boot: string, newId: NewId): GroupWrite<Claim, ClaimedNow> {
	return {
		name: 'claim',
		rank: 2,
		async apply(trx, claims) {
			const claimed: ClaimedNow[] = [];
			for (const claim of claims) {
				const {warmUp} = claim;
				const warmBefore = warmUp ? await readWarmUp(trx, warmUp) : 0;
				const limit = warmUp ? Math.max(0, Math.min(claim.limit, warmUp.perDay - warmBefore)) : claim.limit;
				const rows = limit > 0 ? await selectDue(trx, dialect, boot, {...claim, limit}) : [];
				const nextDue = claim.asksNext && rows.length < limit ? await readNextDue(trx, claim) : null;
				await markClaimed(trx, boot, claim, rows);
				await recordQueued(trx, newId, claim.now, rows);
				const warmedUp = warmUp ? await addWarmUp(trx, warmUp, rows.length) : null;
				claimed.push({copies: rows, nextDue, warmedUp});
			}
			return claimed;
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
	{destination, workspaceId, now, limit, newestFirst}: Claim,
): Promise<Row[]> {
	const due = dialect.lockDue(
		trx('recipients as q')
			.select('q.id')
			.where({'q.destination': destination, 'q.workspace_id': workspaceId})
			.where('q.next_attempt_at', '<=', now)
			.whereNull('q.held_at')
			.whereRaw('(q.claimed_by is null or (q.claimed_by <> ? and q.claimed_by not in (select n.id from nodes as n)))', [
				boot,
			])
			.whereNotExists(
				trx('workspaces as p').select(trx.raw('1')).where('p.id', workspaceId).whereNotNull('p.paused_at'),
			)
			.orderBy('q.next_attempt_at', newestFirst ? 'desc' : 'asc')
			.limit(limit),
	);
	return await copiesWithMail(trx).whereIn('r.id', due);
}

async function readNextDue(trx: Knex.Transaction, {destination, workspaceId, now}: Claim): Promise<string | null> {
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

async function markClaimed(trx: Knex.Transaction, boot: string, claim: Claim, rows: readonly Row[]): Promise<void> {
	if (rows.length === 0) {
		return;
	}
	await trx('recipients')
		.whereIn(
			'id',
			rows.map(row => row.id),
		)
		.update({
			claimed_by: boot,
			next_attempt_at: claim.until,
			state: trx.raw(`case when state = 'accepted' then 'queued' else state end`),
			state_at: trx.raw(`case when state = 'accepted' then ? else state_at end`, [claim.now]),
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

/** A copy that a report ended during its try has left the queue, and stays out of it. */
const givenBack = (trx: Knex.Transaction, now: string) => ({
	claimed_by: null,
	next_attempt_at: trx.raw('case when next_attempt_at is not null then ? end', [now]),
});

/** Gives back every claim that is not this daemon's: on SQLite the folder's lock says that their daemons are dead. */
export async function releaseOtherClaims(trx: Knex.Transaction, boot: string, now: string): Promise<number> {
	return await trx('recipients').whereNotNull('claimed_by').whereNot('claimed_by', boot).update(givenBack(trx, now));
}

/** Forgets nodes that were silent too long and gives back their claims (several machines on PostgreSQL). */
export async function releaseSilentClaims(trx: Knex.Transaction, silentSince: string, now: string): Promise<number> {
	const dead = trx('nodes').select('id').where('seen_at', '<', silentSince);
	const released = await trx('recipients').whereIn('claimed_by', dead).update(givenBack(trx, now));
	const gone = await trx('nodes').where('seen_at', '<', silentSince).delete();
	await (gone > 0 && removeGoneLaneWaits(trx));
	return released;
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

/** Gives back what this daemon still held when it stopped. */
export async function releaseOwnClaims(trx: Knex.Transaction, boot: string, now: string): Promise<number> {
	return await trx('recipients').where({claimed_by: boot}).update(givenBack(trx, now));
}

/**
 * Gives back what this daemon holds and does not know of (`known`: the ids that it does): a claim was committed, and the
 * answer to the commit never came. Answers their lanes.
 */
export async function releaseUnknownClaims(
	trx: Knex.Transaction,
	boot: string,
	known: readonly string[],
	now: string,
): Promise<LaneKey[]> {
	const query = trx('recipients').where({claimed_by: boot});
	if (known.length > 0) {
		const {sql, bindings} = rowSource(
			trx,
			known.map(id => [id]),
			1,
		);
		query.whereRaw(`id not in (select v.column1 from (${sql}) as v)`, bindings as Knex.RawBinding[]);
	}
	const released: Array<{destination: string; workspace_id: string}> = await query
		.update(givenBack(trx, now))
		.returning(['destination', 'workspace_id']);
	const lanes = released.map(({destination, workspace_id: workspaceId}) => ({destination, workspaceId}));
	return [...new Map(lanes.map(lane => [laneText(lane), lane])).values()];
}

/**
 * After the wall clock stepped back: brings forward what waits longer than any wait can be. Claimed copies end by result
 * and are left alone.
 */
export async function bringForward(trx: Knex.Transaction, latest: string, now: string): Promise<number> {
	return await trx('recipients')
		.whereNull('claimed_by')
		.whereNull('held_at')
		.where('next_attempt_at', '>', latest)
		.update({next_attempt_at: now});
}

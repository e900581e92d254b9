import type {Knex} from 'knex';
import {dayMs, storeTime} from '../../kit/time.ts';
import {idFloor} from '../../mail/ids.ts';
import type {SavedSite} from '../../mail/saved-site.ts';
import {simulatorDomain} from '../../mail/simulator.ts';
import type {WaitCode} from '../../mail/wait-reason.ts';
import {isUnheld, leaseLock, serverMs} from '../engine/dialect.ts';
import {insertRows} from '../engine/rows.ts';
import type {GroupWrite} from '../engine/writer.ts';
import {isNewestOfQueue} from './open-recipients.ts';

/** What is to be stored about a provider. `saved` is `null` if there is nothing to store any more. */
export type SiteNote = {
	readonly site: string;
	readonly provider: string;
	readonly saved: SavedSite | null;
	/** Whether only its window changed. A suspension that another node stored in the meantime stays then. */
	readonly isWindow: boolean;
	/** The current time, in the store's form. */
	readonly at: string;
};

type Row = {
	readonly site: string;
	readonly suspended_until: string | null;
	readonly reason: string | null;
	readonly waits_for: 'suspension' | 'route' | null;
	readonly advice: string | null;
	readonly step: number;
	readonly window: number;
	readonly slow_until: string | null;
	readonly slow_per_minute: number | null;
	readonly slow_connections: number | null;
	readonly slow_reason: string | null;
	readonly mails_per_session: number | null;
};

const columns = [
	'site',
	'provider',
	'suspended_until',
	'reason',
	'waits_for',
	'advice',
	'step',
	'window',
	'slow_until',
	'slow_per_minute',
	'slow_connections',
	'slow_reason',
	'mails_per_session',
	'updated_at',
];
// `window` is a keyword of PostgreSQL.
const quoted = columns.map(name => `"${name}"`);
const replacing = (names: readonly string[]) => names.map(name => `"${name}" = excluded."${name}"`).join(', ');
const replaced = replacing(columns.slice(1));
const replacedWindow = replacing(['window', 'updated_at']);

/** Returns the last stored state of providers, by name. */
export async function readSites(reader: Knex): Promise<Map<string, SavedSite>> {
	const rows: Row[] = await reader('sites').select('*');
	return new Map(rows.map(row => [row.site, savedSite(row)]));
}

/** Returns the last stored state of the providers that are suspended or slowed, by name. */
export async function readPauses(reader: Knex): Promise<Map<string, SavedSite>> {
	const rows: Row[] = await reader('sites')
		.whereNotNull('suspended_until')
		.orWhereNotNull('slow_until')
		.orWhereNotNull('mails_per_session')
		.select('*');
	return new Map(rows.map(row => [row.site, savedSite(row)]));
}

function savedSite(row: Row): SavedSite {
	return {
		suspendedUntil: row.suspended_until === null ? null : Date.parse(row.suspended_until),
		reason: row.reason,
		waitsFor: row.waits_for,
		advice: row.advice,
		step: row.step,
		window: row.window,
		slowUntil: row.slow_until === null ? null : Date.parse(row.slow_until),
		slowPerMinute: row.slow_per_minute,
		slowConnections: row.slow_connections,
		slowReason: row.slow_reason,
		mailsPerSession: row.mails_per_session,
	};
}

/** Stores the state of providers. Those with nothing to store lose their row. */
export const siteWrite: GroupWrite<readonly SiteNote[], void> = {
	name: 'sites',
	rank: 8,
	size: notes => notes.length,
	async apply(trx, items) {
		const last = new Map<string, SiteNote>();
		for (const note of items.flat()) {
			last.set(note.site, {...note, isWindow: note.isWindow && (last.get(note.site)?.isWindow ?? true)});
		}
		const notes = [...last.values()].sort((a, b) => (a.site < b.site ? -1 : 1));
		await writeNotes(
			trx,
			notes.filter(({isWindow}) => !isWindow),
			replaced,
			rows => rows,
		);
		await writeNotes(
			trx,
			notes.filter(({isWindow}) => isWindow),
			replacedWindow,
			rows => rows.whereNull('suspended_until').whereNull('slow_until').whereNull('mails_per_session'),
		);
		return items.map(() => undefined);
	},
};

/** Writes notes. Providers with nothing to store lose their row if it is among the `removable` ones. */
async function writeNotes(
	trx: Knex.Transaction,
	notes: readonly SiteNote[],
	replaced: string,
	removable: (rows: Knex.QueryBuilder) => Knex.QueryBuilder,
): Promise<void> {
	const emptied = notes.filter(({saved}) => saved === null).map(({site}) => site);
	if (emptied.length > 0) {
		await removable(trx('sites').whereIn('site', emptied)).delete();
	}
	await insertRows(
		trx,
		'sites',
		quoted,
		notes.flatMap(({site, provider, saved, at}) => (saved ? [toRow(site, provider, saved, at)] : [])),
		`on conflict (site) do update set ${replaced}`,
	);
}

/** Removes at most `limit` providers without a note since `since` that are not suspended at `now`; returns how many. */
export async function purgeSites(trx: Knex.Transaction, since: string, now: string, limit: number): Promise<number> {
	const old = () =>
		trx('sites')
			.where('updated_at', '<', since)
			.where(query => query.whereNull('suspended_until').orWhere('suspended_until', '<=', now));
	// The condition is repeated, so that a row that another node updates in the meantime stays.
	return await old().whereIn('site', old().orderBy('site').limit(limit).select('site')).delete();
}

function toRow(site: string, provider: string, saved: SavedSite, at: string): Array<string | number | null> {
	const time = (wall: number | null) => (wall === null ? null : storeTime(wall));
	return [
		site,
		provider,
		time(saved.suspendedUntil),
		saved.reason,
		saved.waitsFor,
		saved.advice,
		saved.step,
		saved.window,
		time(saved.slowUntil),
		saved.slowPerMinute,
		saved.slowConnections,
		saved.slowReason,
		saved.mailsPerSession,
		at,
	];
}

/** The term in which a node may use its share of each provider. */
export type NodeTerm = {
	/** A daemon's boot id. */
	readonly node: string;
	/** The nodes among which it divides; `null` if it is of the previous version, which divides differently. */
	readonly knows: string | null;
};

/**
 * A node that freezes within the transaction blocks all others, so it is terminated sooner than in other transactions.
 */
const renewalMs = 2000;
/**
 * How long a hanging node keeps its share after its term. By then mail servers have closed its sessions (RFC 5321
 * §4.5.3.2.7).
 */
const hungMs = 5 * 60_000;
const nowMs = `(${serverMs})::bigint`;

/**
 * Renews the node's term, one node at a time, using only the server's clock. `choose` gets all terms and returns the
 * nodes among which this one divides from now on; it may be called again. Returns the new terms. PostgreSQL only.
 */
export async function renewTerm(
	trx: Knex.Transaction,
	node: string,
	termMs: number,
	choose: (terms: readonly NodeTerm[]) => string,
): Promise<readonly NodeTerm[]> {
	await trx.raw(`select set_config('idle_in_transaction_session_timeout', ?, true), pg_advisory_xact_lock(?)`, [
		String(renewalMs),
		leaseLock,
	]);
	await removeGone(trx, node);
	const terms: NodeTerm[] = await trx('lease_terms').orderBy('node').select('node', 'knows');
	const knows = choose(terms);
	// Nodes of the previous version start nothing while another node's term has `alone` set.
	await trx.raw(
		`insert into lease_terms (node, until, alone, knows) values (?, ${nowMs} + ?, ?, ?)
			on conflict (node) do update set until = excluded.until, alone = excluded.alone, knows = excluded.knows`,
		[node, termMs, knows === '' ? 0 : 1, knows],
	);
	return [...terms.filter(term => term.node !== node), {node, knows}];
}

/**
 * Removes the terms of nodes that are gone. A node that still has its connection to the server may just hang, and keeps
 * its term.
 */
async function removeGone(trx: Knex.Transaction, node: string): Promise<void> {
	const expired: Array<{node: string; isOld: boolean}> = await trx('lease_terms')
		.whereNot({node})
		.whereRaw(`until <= ${nowMs}`)
		.orderBy('node')
		.select('node', trx.raw(`until <= ${nowMs} - ? as "isOld"`, [hungMs]));
	for (const term of expired) {
		if (term.isOld || (await isUnheld(trx, term.node))) {
			await removeShares(trx, term.node);
		}
	}
}

/** Removes the shares of a node whose connections are closed. PostgreSQL only. */
export async function removeShares(trx: Knex.Transaction, node: string): Promise<void> {
	await trx('leases').where({node}).delete();
	await trx('lease_terms').where({node}).delete();
}

/** A day of a new source, and the group of providers that it sends to. */
export type WarmUpDay = {
	readonly source: string;
	readonly group: string;
	/** UTC, YYYY-MM-DD. */
	readonly day: string;
};

/** How many recipients were counted for a new source on a day. */
export type WarmUpCount = {readonly source: string; readonly provider: string; readonly n: number};

export async function readWarmUps(reader: Knex, day: string): Promise<WarmUpCount[]> {
	return await reader('warmup_days').where({day}).orderBy(['source', 'provider']).select('source', 'provider', 'n');
}

/** Adds to the count and returns the sum. The row is locked until the transaction ends. */
export async function addWarmUp(
	trx: Knex.Transaction,
	{source, group, day}: WarmUpDay,
	recipients: number,
): Promise<number> {
	const [row]: Array<{n: number}> = await trx('warmup_days')
		.insert({source, provider: group, day, n: recipients})
		.onConflict(['source', 'provider', 'day'])
		.merge({n: trx.raw('warmup_days.n + ?', [recipients])})
		.returning('n');
	return row?.n ?? recipients;
}

/** Removes the counts of days before this one, at most `limit`; returns how many. */
export async function purgeWarmUp(trx: Knex.Transaction, day: string, limit: number): Promise<number> {
	const columns = ['source', 'provider', 'day'];
	const old = trx('warmup_days').where('day', '<', day).limit(limit).select(columns);
	return await trx('warmup_days').whereIn(columns, old).delete();
}

/** The conversations with one mail server, and how many of them ended with a 4xx reply or without one. */
type HostFigures = {readonly host: string; readonly conversations: number; readonly deferred: number};

/** How many conversations of a day are evaluated, the first ones. Reading all of a busy day would take seconds. */
const maxRead = 20_000;

/** Returns the conversations of a UTC day (`2026-11-05`) about recipients accepted on that day, by mail server. */
export async function readHostFigures(reader: Knex, day: string): Promise<HostFigures[]> {
	const start = Date.parse(day);
	const first = reader('attempts')
		.select('host', 'code')
		.where('recipient_id', '>=', idFloor('rcp', start))
		.where('recipient_id', '<', idFloor('rcp', start + dayMs))
		.whereNotNull('host')
		.whereNot('host', simulatorDomain)
		.orderBy(['recipient_id', 'n', 'position'])
		.limit(maxRead)
		.as('first');
	const rows: Array<{host: string; n: number | string; deferred: number | string}> = await reader
		.from(first)
		.select('host')
		.count({n: '*'})
		.sum({deferred: reader.raw('case when code is null or code between 400 and 499 then 1 else 0 end')})
		.groupBy('host');
	return rows.map(({host, n, deferred}) => ({host, conversations: Number(n), deferred: Number(deferred)}));
}

/** Returns how many messages of all workspaces were delivered and complained about on a UTC day. */
export async function readComplaintFigures(
	reader: Knex,
	day: string,
): Promise<{readonly delivered: number; readonly complained: number}> {
	const rows: Array<{status: string; n: number | string}> = await reader('usage_days')
		.select('status')
		.sum({n: 'n'})
		.where({day})
		.whereIn('status', ['delivered', 'complained'])
		.groupBy('status');
	const countOf = (status: string) => Number(rows.find(row => row.status === status)?.n ?? 0);
	return {delivered: countOf('delivered'), complained: countOf('complained')};
}

/** How pacing delays messages. All figures come from small tables. */
export type PaceFigures = {
	/** Suspended now: destinations by an operator, providers after failures, relays that refuse us. */
	readonly suspended: {readonly operator: number; readonly failures: number; readonly route: number};
	/** Destination queues with delayed messages, due or not, by reason. */
	readonly queues: ReadonlyArray<{readonly waitsFor: WaitCode; readonly n: number}>;
	/** The recipients that were counted for new sources today. */
	readonly warmUp: readonly WarmUpCount[];
};

/** Reads the figures. `now` is in the store's form. */
export async function readPaceFigures(reader: Knex, now: string): Promise<PaceFigures> {
	const [operator, sites, queues, warmUp] = await Promise.all([
		reader('suspensions').count('* as n').first<Count>(),
		reader('sites').where('suspended_until', '>', now).pluck('waits_for') as Promise<Array<string | null>>,
		reader('lane_waits as l')
			.whereRaw(isNewestOfQueue)
			.select('l.waits_for as waitsFor')
			.count('* as n')
			.groupBy('l.waits_for') as Promise<Array<{waitsFor: WaitCode; n: number | string}>>,
		readWarmUps(reader, now.slice(0, 10)),
	]);
	const routes = sites.filter(waitsFor => waitsFor === 'route').length;
	return {
		suspended: {operator: Number(operator?.n ?? 0), failures: sites.length - routes, route: routes},
		queues: queues.map(({waitsFor, n}) => ({waitsFor, n: Number(n)})),
		warmUp,
	};
}

/** Returns the relays that refuse us now, so that their messages wait. `now` is in the store's form. */
export async function listRefusingRoutes(
	reader: Knex,
	now: string,
): Promise<Array<{readonly site: string; readonly reason: string | null}>> {
	return await reader('sites')
		.where('suspended_until', '>', now)
		.where({waits_for: 'route'})
		.orderBy('site')
		.select('site', 'reason');
}

type BlockingSite = {
	readonly site: string;
	/** The name of the entry in the destinations file. */
	readonly provider: string;
	readonly reason: string | null;
	readonly advice: string;
};

/** Returns providers that block our address now, at most `limit`. `now` is in the store's form. */
export async function listBlockingSites(reader: Knex, now: string, limit: number): Promise<BlockingSite[]> {
	return await reader('sites')
		.where('suspended_until', '>', now)
		.whereNotNull('advice')
		.orderBy('site')
		.limit(limit)
		.select('site', 'provider', 'reason', 'advice');
}

/** A provider that backs off, and a destination of a workspace with messages that wait for it. */
export type WaitingSite = {
	readonly destination: string;
	readonly workspace_id: string;
	readonly site: string;
	readonly provider: string;
	readonly reason: string | null;
	/** `route` if it is a relay that refuses us. */
	readonly waits_for: 'suspension' | 'route' | null;
	/** What the operator can do if the provider blocks our address. */
	readonly advice: string | null;
};

/** Returns the providers that back off at `now`, for each destination that waits for one: of one workspace, or all. */
export async function listWaitingSites(reader: Knex, now: string, workspaceId?: string): Promise<WaitingSite[]> {
	return await reader('lane_waits as l')
		.join('sites as s', 's.site', 'l.site')
		.where('s.suspended_until', '>', now)
		.modify(query => workspaceId !== undefined && void query.where('l.workspace_id', workspaceId))
		.distinct('l.destination', 'l.workspace_id', 's.site', 's.provider', 's.reason', 's.waits_for', 's.advice')
		.orderBy(['l.destination', 'l.workspace_id']);
}

/** How many messages must wait for a provider that fails: a mistyped domain is no failure of its own. */
const minWaiting = 5;

/** A provider that accepts no mail, for a reason other than a block of our address or a relay that refuses us. */
type FailingSite = {readonly site: string; readonly reason: string | null; readonly step: number};

/**
 * Returns providers that have backed off at least `step` times in a row and that several messages wait for, at most
 * `limit`. One whose backoff ended before `since` (in the store's form) is left out.
 */
export async function listFailingSites(
	reader: Knex,
	{since, step, limit}: {readonly since: string; readonly step: number; readonly limit: number},
): Promise<FailingSite[]> {
	return await reader('sites')
		.where('suspended_until', '>', since)
		.where('step', '>=', step)
		.where('waits_for', 'suspension')
		.whereNull('advice')
		.whereRaw(
			`(select count(*) from (select 1 as one from lane_waits as l
				join queue as q on q.destination = l.destination and q.workspace_id = l.workspace_id
				where l.site = sites.site limit ${minWaiting}) as w) = ${minWaiting}`,
		)
		.orderBy('site')
		.limit(limit)
		.select('site', 'reason', 'step');
}

type Count = {readonly n: number | string};

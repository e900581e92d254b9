import type {Knex} from 'knex';
import {dayMs, storeTime} from '../../kit/time.ts';
import {idFloor} from '../../mail/ids.ts';
import type {SavedSite} from '../../mail/saved-site.ts';
import {isNothing, type ShareRow, type Sharers} from '../../mail/saved-site.ts';
import {simulatorDomain} from '../../mail/simulator.ts';
import type {WaitCode} from '../../mail/wait-reason.ts';
import {leaseLock, serverMs} from '../engine/dialect.ts';
import {insertRows} from '../engine/rows.ts';
import type {GroupWrite} from '../engine/writer.ts';
import {isNewestOfQueue} from './open-recipients.ts';

/** What is to be remembered of a site; null: nothing any more. */
export type SiteNote = {
	readonly site: string;
	readonly provider: string;
	readonly saved: SavedSite | null;
	/** Now, in the store's form. */
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
	'mails_per_session',
	'updated_at',
];
// PostgreSQL has a word of its own called window.
const quoted = columns.map(name => `"${name}"`);
const replaced = quoted.slice(1).map(name => `${name} = excluded.${name}`);

/** How sites were doing when it was last noted, by their names. */
export async function readSites(reader: Knex): Promise<Map<string, SavedSite>> {
	const rows: Row[] = await reader('sites').select('*');
	return new Map(rows.map(row => [row.site, savedSite(row)]));
}

/** How these sites were doing when it was last noted, by their names. */
async function readSitesOf(reader: Knex, sites: readonly string[]): Promise<Map<string, SavedSite>> {
	const rows: Row[] = await reader('sites').whereIn('site', sites).select('*');
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
		mailsPerSession: row.mails_per_session,
	};
}

/** Notes how sites are doing: those with nothing to remember lose their row. */
export const siteWrite: GroupWrite<readonly SiteNote[], void> = {
	name: 'sites',
	rank: 8,
	size: notes => notes.length,
	async apply(trx, items) {
		const last = new Map(items.flat().map(note => [note.site, note]));
		const notes = [...last.values()].sort((a, b) => (a.site < b.site ? -1 : 1));
		const over = notes.filter(({saved}) => saved === null).map(({site}) => site);
		if (over.length > 0) {
			await trx('sites').whereIn('site', over).delete();
		}
		await insertRows(
			trx,
			'sites',
			quoted,
			notes.flatMap(({site, provider, saved, at}) => (saved ? [rowOf(site, provider, saved, at)] : [])),
			`on conflict (site) do update set ${replaced.join(', ')}`,
		);
		return items.map(() => undefined);
	},
};

/** Removes sites without a note since then that are not suspended at `now`, at most this many; returns how many. */
export async function purgeSites(trx: Knex.Transaction, since: string, now: string, limit: number): Promise<number> {
	const old = () =>
		trx('sites')
			.where('updated_at', '<', since)
			.where(site => site.whereNull('suspended_until').orWhere('suspended_until', '<=', now));
	// What another node notes meanwhile stays.
	return await old().whereIn('site', old().orderBy('site').limit(limit).select('site')).delete();
}

function rowOf(site: string, provider: string, saved: SavedSite, at: string): Array<string | number | null> {
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
		saved.mailsPerSession,
		at,
	];
}

type ShareExchange = {
	/** A daemon's boot id. */
	readonly node: string;
	/** How long the node has what it gets, milliseconds. */
	readonly shareMs: number;
	/** The sites that it reports. */
	readonly sites: readonly string[];
	/** What is to be known of the node, and remembered of sites, from now on. */
	readonly decide: (
		sharers: Sharers,
		shares: readonly ShareRow[],
		rows: ReadonlyMap<string, SavedSite>,
	) => {readonly shares: readonly ShareRow[]; readonly sites: readonly SiteNote[]};
};

export type ShareNews = {
	/** No other node lives: this one has all sites until the next exchange. */
	readonly isAlone: boolean;
	/** Another node has all sites until it learns of this one. */
	readonly isBlocked: boolean;
	/** Others took this node for gone, and may have what it had. */
	readonly wasLost: boolean;
};

type Term = {readonly node: string; readonly alone: number; readonly lives: boolean};

const shareColumns = ['site', 'node', 'slots', 'wants', 'per_minute'];
/** A node that freezes within it holds up all others: it is ended sooner than other transactions. */
const exchangeMs = 2000;
const nowMs = `(${serverMs})::bigint`;

/** One node at a time reports its use of sites and gets its shares. By the server's clock alone. PostgreSQL only. */
export async function exchangeShares(trx: Knex.Transaction, exchange: ShareExchange): Promise<ShareNews> {
	const {node, shareMs, sites, decide} = exchange;
	await trx.raw(`select set_config('idle_in_transaction_session_timeout', ?, true), pg_advisory_xact_lock(?)`, [
		String(exchangeMs),
		leaseLock,
	]);
	await trx.raw(
		`with gone as (delete from lease_terms where until <= ${nowMs} and node <> ? returning node)
			delete from leases using gone where leases.node = gone.node`,
		[node],
	);
	const terms: Term[] = await trx('lease_terms').select('node', 'alone', trx.raw(`until > ${nowMs} as lives`));
	const others = terms.filter(term => term.node !== node);
	const wasLost = !terms.some(term => term.node === node && term.lives);
	const isAlone = others.length === 0;
	const isBlocked = others.some(({alone}) => alone === 1);
	if (wasLost || isAlone) {
		await trx('leases').where({node}).delete();
	}
	await trx.raw(
		`insert into lease_terms (node, until, alone) values (?, ${nowMs} + ?, ?)
			on conflict (node) do update set until = excluded.until, alone = excluded.alone`,
		[node, shareMs, isAlone ? 1 : 0],
	);
	if (!isAlone && sites.length > 0) {
		const known = await readShares(trx, sites);
		const rows = await readSitesOf(trx, sites);
		const decided = decide({node, nodes: others.length + 1, isBlocked}, known, rows);
		await writeShares(
			trx,
			known.filter(row => row.node === node),
			decided.shares,
		);
		if (decided.sites.length > 0) {
			await siteWrite.apply(trx, [decided.sites]);
		}
	}
	return {isAlone, isBlocked, wasLost};
}

async function readShares(trx: Knex.Transaction, sites: readonly string[]): Promise<ShareRow[]> {
	return await trx('leases')
		.whereIn('site', sites)
		.orderBy('node')
		.select('site', 'node', 'slots', 'wants', 'per_minute as perMinute');
}

/** Only what changed: most of it stays as it is from second to second. */
async function writeShares(
	trx: Knex.Transaction,
	known: readonly ShareRow[],
	wanted: readonly ShareRow[],
): Promise<void> {
	const before = new Map(known.map(row => [row.site, row]));
	const isKnown = (row: ShareRow) => {
		const one = before.get(row.site);
		return one?.slots === row.slots && one.wants === row.wants && one.perMinute === row.perMinute;
	};
	const over = wanted.filter(row => isNothing(row) && before.has(row.site));
	if (over.length > 0) {
		await trx('leases')
			.where({node: over[0]?.node})
			.whereIn(
				'site',
				over.map(({site}) => site),
			)
			.delete();
	}
	await insertRows(
		trx,
		'leases',
		shareColumns,
		wanted
			.filter(row => !(isNothing(row) || isKnown(row)))
			.map(({site, node, slots, wants, perMinute}) => [site, node, slots, wants, perMinute]),
		`on conflict (site, node) do update set slots = excluded.slots, wants = excluded.wants, per_minute = excluded.per_minute`,
	);
}

/** Goes on having all sites; false: another node is there, or this one was taken for gone. PostgreSQL only. */
export async function renewAlone(trx: Knex.Transaction, node: string, shareMs: number): Promise<boolean> {
	const {rows} = await trx.raw(
		`update lease_terms as mine set until = ${nowMs} + ? where node = ? and alone = 1 and until > ${nowMs}
			returning exists (select 1 from lease_terms as other where other.node <> mine.node) as shared`,
		[shareMs, node],
	);
	return rows.length > 0 && !rows[0].shared;
}

/** The node has nothing any more: its connections are closed. PostgreSQL only. */
export async function removeShares(trx: Knex.Transaction, node: string): Promise<void> {
	await trx('leases').where({node}).delete();
	await trx('lease_terms').where({node}).delete();
}

/** A day of a source that is new, and the group of sites that it sends to. */
export type WarmUpDay = {
	readonly source: string;
	readonly group: string;
	/** UTC, YYYY-MM-DD. */
	readonly day: string;
};

/** Recipients that new sources were counted for on a day. */
export type WarmUpCount = {readonly source: string; readonly provider: string; readonly n: number};

export async function readWarmUps(reader: Knex, day: string): Promise<WarmUpCount[]> {
	return await reader('warmup_days').where({day}).orderBy(['source', 'provider']).select('source', 'provider', 'n');
}

/** Counts recipients and returns the sum. The row is locked until the transaction ends. */
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

/** Removes the counts of days before this one, at most this many; answers how many. */
export async function purgeWarmUp(trx: Knex.Transaction, day: string, limit: number): Promise<number> {
	const columns = ['source', 'provider', 'day'];
	const old = trx('warmup_days').where('day', '<', day).limit(limit).select(columns);
	return await trx('warmup_days').whereIn(columns, old).delete();
}

/** Conversations with one host, and how many of them ended in a 4xx reply or without one. */
type HostFigures = {readonly host: string; readonly conversations: number; readonly deferred: number};

/** Conversations by which a day is judged, the first ones: reading all of a busy day would take seconds. */
const mostRead = 20_000;

/** The conversations of a UTC day (`2026-11-05`) about recipients that were accepted on it, by host. */
export async function readHostFigures(reader: Knex, day: string): Promise<HostFigures[]> {
	const start = Date.parse(day);
	const first = reader('attempts')
		.select('host', 'code')
		.where('recipient_id', '>=', idFloor('rcp', start))
		.where('recipient_id', '<', idFloor('rcp', start + dayMs))
		.whereNotNull('host')
		.whereNot('host', simulatorDomain)
		.orderBy(['recipient_id', 'n', 'position'])
		.limit(mostRead)
		.as('first');
	const rows: Array<{host: string; n: number | string; deferred: number | string}> = await reader
		.from(first)
		.select('host')
		.count({n: '*'})
		.sum({deferred: reader.raw('case when code is null or code between 400 and 499 then 1 else 0 end')})
		.groupBy('host');
	return rows.map(({host, n, deferred}) => ({host, conversations: Number(n), deferred: Number(deferred)}));
}

/** Mails delivered and complained of on a UTC day, all workspaces together. */
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
	const of = (status: string) => Number(rows.find(row => row.status === status)?.n ?? 0);
	return {delivered: of('delivered'), complained: of('complained')};
}

/** How the pace keeps mail back; all from small tables. */
export type PaceFigures = {
	/** Suspended at the moment: destinations by an operator, sites after failures, smarthosts that refuse us. */
	readonly suspended: {readonly operator: number; readonly failures: number; readonly route: number};
	/** Destination queues with mail that is kept back, due or not, by reason. */
	readonly queues: ReadonlyArray<{readonly waitsFor: WaitCode; readonly n: number}>;
	/** Recipients that a new source was counted for today. */
	readonly warmUp: readonly WarmUpCount[];
};

/** `now` in the store's form. */
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

/** Smarthosts that refuse us now: mail for them waits. `now` in the store's form. */
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
	/** The entry of the destinations file. */
	readonly provider: string;
	readonly reason: string | null;
	readonly advice: string;
};

/** Sites that block our address now, at most this many: mail for them waits. `now` in the store's form. */
export async function listBlockingSites(reader: Knex, now: string, limit: number): Promise<BlockingSite[]> {
	return await reader('sites')
		.where('suspended_until', '>', now)
		.whereNotNull('advice')
		.orderBy('site')
		.limit(limit)
		.select('site', 'provider', 'reason', 'advice');
}

type Count = {readonly n: number | string};

import type {Knex} from 'knex';
import type {SavedSite} from '../../mail/saved-site.ts';
import {isNothing, type ShareRow, type Sharers} from '../../mail/share-row.ts';
import {leaseLock, serverMs} from '../engine/dialect.ts';
import {insertRows} from '../engine/insert-rows.ts';
import {readSitesOf, type SiteNote, siteWrite} from './sites.ts';

export type ShareExchange = {
	/** A daemon's boot id. */
	readonly node: string;
	/** How long the node has what it gets, milliseconds. */
	readonly shareMs: number;
	/** Those it tells of. */
	readonly sites: readonly string[];
	/** What is to be known of the node, and remembered of sites, from now on. */
	readonly decide: (
		sharers: Sharers,
		shares: readonly ShareRow[],
		rows: ReadonlyMap<string, SavedSite>,
	) => {readonly shares: readonly ShareRow[]; readonly sites: readonly SiteNote[]};
};

export type ShareNews = {
	/** No other node lives: this one has all sites until it is told otherwise. */
	readonly isAlone: boolean;
	/** Another one has all sites until it is told of this one. */
	readonly isBlocked: boolean;
	/** Others took this node for gone, and may have what it had. */
	readonly wasLost: boolean;
};

type Term = {readonly node: string; readonly alone: number; readonly lives: boolean};

const columns = ['site', 'node', 'slots', 'wants', 'per_minute'];
/** A node that freezes within it holds up all others: it is ended sooner than other transactions. */
const exchangeMs = 2000;
const nowMs = `(${serverMs})::bigint`;

/** One node at a time tells what it has of sites, and gets what it may have. By the server's clock alone. PostgreSQL only. */
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
		columns,
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

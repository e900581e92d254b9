import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import type {SavedSite} from '../../mail/saved-site.ts';
import {insertRows} from '../engine/insert-rows.ts';
import type {GroupWrite} from '../engine/writer.ts';

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
export async function readSitesOf(reader: Knex, sites: readonly string[]): Promise<Map<string, SavedSite>> {
	const rows: Row[] = await reader('sites').whereIn('site', sites).select('*');
	return new Map(rows.map(row => [row.site, savedSite(row)]));
}

/** What is remembered of one site; undefined: nothing. */
export async function readSite(reader: Knex, site: string): Promise<SavedSite | undefined> {
	const row: Row | undefined = await reader('sites').where({site}).first('*');
	return row && savedSite(row);
}

function savedSite(row: Row): SavedSite {
	return {
		suspendedUntil: row.suspended_until === null ? null : Date.parse(row.suspended_until),
		reason: row.reason,
		waitsFor: row.waits_for,
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

/** Forgets sites of which nothing was noted since then and that are not suspended at `now`, at most this many; answers how many. */
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
		saved.step,
		saved.window,
		time(saved.slowUntil),
		saved.slowPerMinute,
		saved.slowConnections,
		saved.mailsPerSession,
		at,
	];
}

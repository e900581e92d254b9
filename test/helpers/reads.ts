import type {Knex} from 'knex';
import type {Store} from '../../src/store/store.ts';
import type {Engine} from './databases.ts';

/** A statement that ran, and why it reads too much; null: it does not. */
export type Read = {readonly sql: string; readonly fault: string | null};

type Node = {
	readonly 'Node Type': string;
	readonly 'Relation Name'?: string;
	readonly 'Shared Hit Blocks': number;
	readonly 'Shared Read Blocks': number;
	readonly 'Rows Removed by Filter'?: number;
	readonly Plans?: readonly Node[];
};

/** Pages of the store that a statement may read; a page of results has at most 100 rows, each from an index. */
const maxPages = 600;
/** Tables of so few rows may be read from end to end. */
const small = 1000;

/** Runs the work, then asks the engine how it runs each statement that the work read with. */
export async function readsDuring(store: Store, engine: Engine, work: () => Promise<unknown>): Promise<Read[]> {
	const statements = new Map<string, readonly Knex.RawBinding[]>();
	const note = (query: {sql: string; bindings?: readonly Knex.RawBinding[]}) =>
		// PostgreSQL's client has numbered the bindings by then.
		statements.set(query.sql.replaceAll(/\$\d+/g, '?'), query.bindings ?? []);
	store.reader.on('query', note);
	await work();
	store.reader.removeListener('query', note);
	const reads: Read[] = [];
	for (const [sql, bindings] of statements) {
		if (/^\s*(?:select|with)\b/i.test(sql)) {
			reads.push({sql, fault: await (engine === 'sqlite' ? sqliteFault : postgresFault)(store, sql, bindings)});
		}
	}
	return reads;
}

async function sqliteFault({reader}: Store, sql: string, bindings: readonly Knex.RawBinding[]): Promise<string | null> {
	const rows: Array<{detail: string}> = await reader.raw(`explain query plan ${sql}`, [...bindings]);
	const plan = rows.map(({detail}) => detail).join('\n');
	const scans = [...plan.matchAll(/\bSCAN (?!jsonb?_each|v\b|rows\b|\(|CONSTANT)(\w+)/g)].length > 0;
	return scans || /TEMP B-TREE FOR (?:ORDER BY|GROUP BY|DISTINCT)/.test(plan) ? plan : null;
}

async function postgresFault(
	{reader}: Store,
	sql: string,
	bindings: readonly Knex.RawBinding[],
): Promise<string | null> {
	const {rows} = await reader.raw(`explain (analyze, buffers, format json) ${sql}`, [...bindings]);
	const [{Plan: plan}] = rows[0]['QUERY PLAN'] as [{Plan: Node}];
	const nodes = nodesOf(plan);
	const pages = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
	const scans = nodes.some(node => node['Node Type'] === 'Seq Scan' && (node['Rows Removed by Filter'] ?? 0) > small);
	return scans || pages > maxPages ? `${pages} pages: ${JSON.stringify(plan)}` : null;
}

function nodesOf(node: Node): Node[] {
	return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

import {Readable} from 'node:stream';
import type {Knex} from 'knex';
import {csvLine} from '../kit/csv.ts';
import {type AuditEntry, listAudit} from './audit/store.ts';

/** The columns of each export. They are field names in the JSON of a row. */
export const csvColumns = {
	messages: [
		'id',
		'status',
		'to',
		'from',
		'reply_to',
		'cc',
		'subject',
		'template_id',
		'template_name',
		'template_version',
		'metadata',
		'tags',
		'mode',
		'resent_from',
		'created_at',
		'updated_at',
	],
	events: ['id', 'message_id', 'mode', 'type', 'occurred_at', 'recorded_at', 'detail'],
	timeline: ['id', 'type', 'occurred_at', 'recorded_at', 'detail'],
	audit: ['id', 'at', 'workspace', 'actor', 'from', 'action', 'target', 'detail'],
} as const;

type Part = {readonly after: string | null; readonly limit: number};
type Scan<Row> = (part: Part) => Promise<{readonly rows: readonly Row[]; readonly next: string | null}>;

const rowsAtOnce = 100;

/** Yields a list page by page, up to `max` rows. */
export async function* readPages<Row>(
	scan: Scan<Row>,
	{
		after = null,
		max = Number.POSITIVE_INFINITY,
	}: {readonly after?: string | null; readonly max?: number | undefined} = {},
): AsyncGenerator<readonly Row[]> {
	let left = max;
	for (let from: string | null | undefined = after; from !== undefined && left > 0; ) {
		const {rows, next}: Awaited<ReturnType<Scan<Row>>> = await scan({
			after: from,
			limit: Math.min(left, rowsAtOnce),
		});
		yield rows;
		left -= rows.length;
		from = next ?? undefined;
	}
}

/**
 * Yields a list as the text of a CSV file: a header, then a line for each row. Values other than strings and numbers
 * are written as JSON.
 */
export async function* streamCsv<Row>(
	columns: readonly string[],
	pages: AsyncIterable<readonly Row[]>,
	view: (row: Row) => object,
): AsyncGenerator<string> {
	const lineOf = (row: Row) => csvLine(columns.map(name => toCell((view(row) as Record<string, unknown>)[name])));
	let header = csvLine(columns);
	for await (const rows of pages) {
		yield header + rows.map(lineOf).join('');
		header = '';
	}
}

function toCell(value: unknown): string | number {
	if (value === null || value === undefined) {
		return '';
	}
	return typeof value === 'string' || typeof value === 'number' ? value : JSON.stringify(value);
}

/**
 * Returns the text as a response body, which reads rows only as fast as the client receives them. Rejects if the first
 * page cannot be read, while the response can still be an error.
 */
export async function csvFile(text: AsyncGenerator<string>): Promise<Readable> {
	const first = await text.next();
	return Readable.from(streamBytes(first.done ? '' : first.value, text), {objectMode: false});
}

async function* streamBytes(first: string, rest: AsyncIterable<string>): AsyncGenerator<Buffer> {
	yield Buffer.from(first);
	for await (const part of rest) {
		if (part !== '') {
			yield Buffer.from(part);
		}
	}
}

/** Returns the JSON form of an audit entry. */
export function auditView({workspaceId, id, at, actor, from, action, target, detail}: AuditEntry) {
	return {id, at, workspace: workspaceId, actor, from, action, target, detail};
}

/** Yields the audit trail, newest first. */
export function auditPages(
	reader: Knex,
	filter: Pick<Parameters<typeof listAudit>[1], 'workspaceId' | 'since'>,
	max?: number,
) {
	return readPages(
		async ({after, limit}) => {
			const rows = await listAudit(reader, {...filter, after, limit});
			return {rows, next: rows.length < limit ? null : (rows.at(-1)?.id ?? null)};
		},
		{max},
	);
}

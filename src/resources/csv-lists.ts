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

type PageRequest = {readonly after: string | null; readonly limit: number};
type ReadPage<Row> = (request: PageRequest) => Promise<{readonly rows: readonly Row[]; readonly next: string | null}>;

const rowsPerPage = 100;

/** Yields a list page by page, up to `max` rows. */
export async function* readPages<Row>(
	readPage: ReadPage<Row>,
	{
		after = null,
		max = Number.POSITIVE_INFINITY,
	}: {readonly after?: string | null; readonly max?: number | undefined} = {},
): AsyncGenerator<readonly Row[]> {
	let remaining = max;
	for (let cursor: string | null | undefined = after; cursor !== undefined && remaining > 0; ) {
		const {rows, next}: Awaited<ReturnType<ReadPage<Row>>> = await readPage({
			after: cursor,
			limit: Math.min(remaining, rowsPerPage),
		});
		yield rows;
		remaining -= rows.length;
		cursor = next ?? undefined;
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
	const toLine = (row: Row) => csvLine(columns.map(name => toCell((view(row) as Record<string, unknown>)[name])));
	let header = csvLine(columns);
	for await (const rows of pages) {
		yield header + rows.map(toLine).join('');
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
	for await (const chunk of rest) {
		if (chunk !== '') {
			yield Buffer.from(chunk);
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

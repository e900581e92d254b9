import {createHmac, type KeyObject, timingSafeEqual} from 'node:crypto';
import type {Static} from 'typebox';
import {apiError} from '../mail/api-error.ts';
import {Type} from '../mail/type.ts';

/** The query of a route without parameters. */
export const noQuery = Type.Object({}, {additionalProperties: false});

/** The query of a list without filters. */
export const pageQuery = Type.Object(
	{
		limit: Type.Optional(Type.String({format: 'page-limit', description: 'Items per page, 1 to 100.'})),
		cursor: Type.Optional(
			Type.String({maxLength: 500, description: "The previous page's `next_cursor`, with the same filters."}),
		),
	},
	{additionalProperties: false},
);

/** A part of a list: at most `limit` rows after this position, or from the start if it is `null`. */
export type Part = {readonly after: string | null; readonly limit: number};

type ListOptions = {
	readonly query: Static<typeof pageQuery>;
	readonly defaultLimit: number;
	readonly cursors: Cursors;
	readonly scope: CursorScope;
};

type PageOptions<Row> = ListOptions & {
	/** Returns rows in list order after the row with the id `after`, or from the start if it is `null`. */
	readonly read: (part: Part) => Promise<readonly Row[]>;
};

/** Returns the rows of a part, and the position of the next part or `null` if this was the last one. */
export type Scan<Row> = (part: Part) => Promise<{readonly rows: readonly Row[]; readonly next: string | null}>;

type ScanOptions<Row> = ListOptions & {readonly scan: Scan<Row>};

type Page<Row> = {readonly rows: readonly Row[]; readonly nextCursor: string | null};

/** Reads one page of a list by keyset, so that rows added in the meantime neither repeat nor hide others. */
export async function readPage<Row extends {readonly id: string}>({
	read,
	...list
}: PageOptions<Row>): Promise<Page<Row>> {
	return await scanPage({...list, scan: toScan(read)});
}

/** Turns a reader into a scan. It reads one row more than requested, to know whether there is a next page. */
export function toScan<Row extends {readonly id: string}>(read: PageOptions<Row>['read']): Scan<Row> {
	return async ({after, limit}) => {
		const results = await read({after, limit: limit + 1});
		const rows = results.slice(0, limit);
		return {rows, next: results.length > limit ? (rows.at(-1)?.id ?? null) : null};
	};
}

/** Reads one page of a list whose pages may end before they are full: the scan returns where it stopped. */
export async function scanPage<Row>({query, defaultLimit, cursors, scope, scan}: ScanOptions<Row>): Promise<Page<Row>> {
	const limit = query.limit === undefined ? defaultLimit : Number(query.limit);
	const {rows, next} = await scan({after: readCursor({query, cursors, scope}), limit});
	return {rows, nextCursor: next === null ? null : cursors.write(scope, next)};
}

/**
 * Returns the position where the requested page begins, or `null` for the start of the list. Throws `validation_failed`
 * for a cursor of another list.
 */
export function readCursor({query, cursors, scope}: Pick<ListOptions, 'query' | 'cursors' | 'scope'>): string | null {
	const after = query.cursor === undefined ? null : cursors.read(scope, query.cursor);
	if (query.cursor !== undefined && after === null) {
		const message = 'must be a next_cursor of this list, requested with the same filters';
		throw apiError('validation_failed', {violations: [{field: 'cursor', message}]});
	}
	return after;
}

/** The scope of a cursor, which is rejected with any other workspace, route or filters. */
type CursorScope = {
	readonly workspaceId: string;
	readonly route: string;
	readonly filters: Readonly<Record<string, string>>;
};

const macLength = 16;
const maxCursorLength = 200;

/**
 * Encodes positions in lists as opaque, authenticated strings: the base64url of a truncated HMAC-SHA256 and the
 * position. The HMAC also covers the scope.
 */
export class Cursors {
	readonly #key: Uint8Array | KeyObject;

	constructor(key: Uint8Array | KeyObject) {
		this.#key = key;
	}

	write(scope: CursorScope, position: string): string {
		return Buffer.concat([this.#mac(scope, position), Buffer.from(position)]).toString('base64url');
	}

	/** Returns the position, or `null` if the cursor is forged or belongs to another list. */
	read(scope: CursorScope, cursor: string): string | null {
		const bytes = Buffer.from(cursor.slice(0, maxCursorLength), 'base64url');
		// Several strings decode to the same bytes; only the canonical one is accepted.
		if (bytes.length <= macLength || bytes.toString('base64url') !== cursor) {
			return null;
		}
		const position = bytes.subarray(macLength).toString();
		return timingSafeEqual(this.#mac(scope, position), bytes.subarray(0, macLength)) ? position : null;
	}

	#mac({workspaceId, route, filters}: CursorScope, position: string): Buffer {
		const sortedFilters = Object.entries(filters).sort(([a], [b]) => (a < b ? -1 : 1));
		const text = JSON.stringify(['cursor', workspaceId, route, sortedFilters, position]);
		return createHmac('sha256', this.#key).update(text).digest().subarray(0, macLength);
	}
}

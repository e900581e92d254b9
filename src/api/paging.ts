import Type, {type Static} from 'typebox';
import type {CursorScope, Cursors} from './cursor.ts';
import {apiError} from './errors.ts';

/** The query of what takes none. */
export const noQuery = Type.Object({}, {additionalProperties: false});

/** The query of a list without filters. */
export const pageQuery = Type.Object(
	{
		limit: Type.Optional(Type.String({format: 'page-limit', description: 'Most items of a page, 1 to 100.'})),
		cursor: Type.Optional(
			Type.String({maxLength: 500, description: 'The `next_cursor` of the page before, with the same filters.'}),
		),
	},
	{additionalProperties: false},
);

export type PageOptions<Row> = {
	readonly query: Static<typeof pageQuery>;
	readonly usualLimit: number;
	readonly cursors: Cursors;
	readonly scope: CursorScope;
	/** Rows in the list's order that follow the row with the id `after` (null: from its start). */
	readonly read: (part: {readonly after: string | null; readonly limit: number}) => Promise<readonly Row[]>;
};

export type Page<Row> = {readonly rows: readonly Row[]; readonly nextCursor: string | null};

/** One page of a list by keyset: rows that come meanwhile neither repeat nor hide others. */
export async function readPage<Row extends {readonly id: string}>(options: PageOptions<Row>): Promise<Page<Row>> {
	const {query, usualLimit, cursors, scope, read} = options;
	const limit = query.limit === undefined ? usualLimit : Number(query.limit);
	const after = query.cursor === undefined ? null : cursors.read(scope, query.cursor);
	if (query.cursor !== undefined && after === null) {
		const message = 'must be the next_cursor of this list, with the same filters';
		throw apiError('validation_failed', {violations: [{field: 'cursor', message}]});
	}

	// One row more than asked tells whether there is a next page.
	const found = await read({after, limit: limit + 1});
	const rows = found.slice(0, limit);
	const last = rows.at(-1);
	return {rows, nextCursor: found.length > limit && last ? cursors.write(scope, last.id) : null};
}

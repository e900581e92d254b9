import type {Knex} from 'knex';
import {systemClock} from '../../kit/clock.ts';
import {dayMs, hourMs} from '../../kit/time.ts';
import {type IdPrefix, idFloor, idTime, isId} from '../../mail/ids.ts';
import type {IdRange} from './dialect.ts';

/** More than passes between the ids of a message and of its copies, which are made in one transaction. */
export const lagMs = hourMs;

/**
 * A condition: a column of ids of this kind is made about when these ids were. To be added where rows that belong to ids are
 * looked up by another column, or by a join: PostgreSQL then opens the few days that they are in, not all (`days.ts`).
 */
export function nearIds(
	database: Knex,
	column: string,
	prefix: IdPrefix,
	ids: readonly string[],
): [sql: string, bindings: Knex.RawBinding[]] {
	let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
	if (database.client.driverName === 'pg') {
		for (const id of ids) {
			const time = isId(id.slice(0, 3) as IdPrefix, id) ? idTime(id) : Number.NaN;
			first = Math.min(first, time);
			last = Math.max(last, time);
		}
	}
	// SQLite; no ids; what nobody made is nowhere.
	if (!(first <= last)) {
		return ['1 = 1', []];
	}
	return madeBetween(column, prefix, first - lagMs, last + lagMs);
}

/**
 * A condition: a column of ids of this kind is made in a span of time, milliseconds. PostgreSQL holds a plain range to be a
 * two-hundredth of a day that it knows nothing of yet, and would rather read it from end to end than look anything up; of an
 * array it does not think so.
 */
export function madeBetween(
	column: string,
	prefix: IdPrefix,
	from: number,
	to: number,
): [sql: string, bindings: Knex.RawBinding[]] {
	return [`${column} >= ? and ${column} <= any (array[?])`, [idFloor(prefix, from), idFloor(prefix, to)]];
}

/**
 * A condition: a column has one of these values, however many they are. PostgreSQL gets them one by one: then it opens the
 * days of these ids alone, and looks each of them up. SQLite gets one text (`rowSource`).
 */
export function among(
	database: Knex,
	column: string,
	values: readonly string[],
): [sql: string, bindings: Knex.RawBinding[]] {
	if (database.client.driverName === 'pg') {
		return values.length === 0 ? ['false', []] : [`${column} in (${values.map(() => '?').join()})`, [...values]];
	}
	return [`${column} in (select value from json_each(?))`, [JSON.stringify(values)]];
}

/** The same, to be added where rows are joined by the column: only PostgreSQL needs it. */
export function namedIds(
	database: Knex,
	column: string,
	ids: readonly string[],
): [sql: string, bindings: Knex.RawBinding[]] {
	return database.client.driverName === 'pg' ? among(database, column, ids) : ['1 = 1', []];
}

/** A condition: a column of ids of this kind is made at this time or later, milliseconds. */
export function idsSince(
	database: Knex,
	column: string,
	prefix: IdPrefix,
	time: number,
): [sql: string, bindings: Knex.RawBinding[]] {
	return database.client.driverName === 'pg' ? [`${column} >= ?`, [idFloor(prefix, time)]] : ['1 = 1', []];
}

/** How far back each part but the last goes from the one before. */
const partsMs = [2 * dayMs, 14 * dayMs];

/**
 * A range of ids of one kind in parts, the newest first, to be read one after the other until there are enough: only to plan a
 * statement takes PostgreSQL ten milliseconds and more if it may be about all days. The clock decides nothing but where
 * the parts meet.
 */
export function newestFirst(database: Knex, prefix: IdPrefix, {from = null, below}: IdRange): IdRange[] {
	const parts: IdRange[] = [];
	let end = below;
	let time = below === null ? systemClock.now() : idTime(below.slice(0, 30));
	for (const back of database.client.driverName === 'pg' && !(time < 0) ? partsMs : []) {
		time -= back;
		const start = idFloor(prefix, time);
		if (start <= (from ?? '')) {
			break;
		}
		parts.push({from: start, below: end});
		end = start;
	}
	return [...parts, {from, below: end}];
}

import type {Knex} from 'knex';
import {type LaneKey, type LaneWait, laneText} from '../mail/way.ts';
import {rowSource} from './dialect.ts';
import {insertRows} from './insert-rows.ts';
import type {GroupWrite} from './writer.ts';

/** Why mail of a lane is not claimed that is due, or that waits for a site that is left alone; times in the store's form. */
export type LaneWaitRow = LaneKey & {
	readonly site: string;
	readonly waitsFor: LaneWait;
	/** For people: a sentence. */
	readonly detail: string;
	/** When that ends; null: not known. */
	readonly until: string | null;
	readonly at: string;
};

/** What changed since the last note. */
export type LaneWaitNote = {readonly ended: readonly LaneKey[]; readonly rows: readonly LaneWaitRow[]};

const columns = ['destination', 'workspace_id', 'site', 'waits_for', 'detail', 'until', 'updated_at'];
const replaced = columns.slice(2).map(name => `${name} = excluded.${name}`);

export const laneWaitWrite: GroupWrite<LaneWaitNote, void> = {
	name: 'lane_waits',
	rank: 9,
	size: ({ended, rows}) => ended.length + rows.length,
	async apply(trx, notes) {
		for (const {ended, rows} of notes) {
			await remove(trx, ended.toSorted(byKey));
			await insertRows(
				trx,
				'lane_waits',
				columns,
				rows
					.toSorted(byKey)
					.map(row => [row.destination, row.workspaceId, row.site, row.waitsFor, row.detail, row.until, row.at]),
				`on conflict (destination, workspace_id) do update set ${replaced.join(', ')}`,
			);
		}
		return notes.map(() => undefined);
	},
};

const byKey = (a: LaneKey, b: LaneKey): number => (laneText(a) < laneText(b) ? -1 : 1);

async function remove(trx: Knex.Transaction, lanes: readonly LaneKey[]): Promise<void> {
	if (lanes.length === 0) {
		return;
	}
	const {sql, bindings} = rowSource(
		trx,
		lanes.map(({destination, workspaceId}) => [destination, workspaceId]),
		2,
	);
	await trx.raw(`delete from lane_waits where (destination, workspace_id) in (${sql})`, bindings as Knex.RawBinding[]);
}

/** What was noted before says nothing of this daemon's lanes. */
export async function clearLaneWaits(trx: Knex.Transaction): Promise<void> {
	await trx('lane_waits').delete();
}

import type {Knex} from 'knex';
import type {WaitCode} from '../../mail/wait-reason.ts';
import {isNewestOfQueue} from './queue-waits.ts';
import {readWarmUps, type WarmUpCount} from './warm-up.ts';

/** How the pace keeps mail back; all from small tables. */
export type PaceFigures = {
	/** Suspended at the moment: destinations by an operator, sites after failures, smarthosts that refuse us. */
	readonly suspended: {readonly operator: number; readonly failures: number; readonly route: number};
	/** Lanes (one workspace's mail for one destination) whose mail is kept back, due or not, by why. */
	readonly queues: ReadonlyArray<{readonly waitsFor: WaitCode; readonly n: number}>;
	/** Copies that a new source was counted for today. */
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

type Count = {readonly n: number | string};

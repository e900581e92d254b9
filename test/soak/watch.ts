import {readdirSync, readFileSync, statfsSync, statSync} from 'node:fs';
import {join} from 'node:path';
import {quantile, type Sample} from './record.ts';
import {countOf, type Tally} from './tally.ts';

/** What a process has: all of its threads; null where it is gone. */
export function readProcess(pid: number): {readonly rssMb: number; readonly descriptors: number} | null {
	try {
		const kilobytes = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
		return Number.isNaN(kilobytes)
			? null
			: {rssMb: Math.round(kilobytes / 1024), descriptors: readdirSync(`/proc/${pid}/fd`).length};
	} catch {
		return null;
	}
}

/** Metrics by name with labels; null where nobody answers soon. */
export async function readMetrics(url: string): Promise<ReadonlyMap<string, number> | null> {
	try {
		const answer = await fetch(`${url}/metrics`, {signal: AbortSignal.timeout(2000)});
		const lines = (await answer.text()).split('\n').filter(line => line !== '' && !line.startsWith('#'));
		return new Map(
			lines.map(line => {
				const space = line.lastIndexOf(' ');
				return [line.slice(0, space), Number(line.slice(space + 1))] as const;
			}),
		);
	} catch {
		return null;
	}
}

/** Recipients that the daemon has in its queue. */
export function queuedIn(metrics: ReadonlyMap<string, number>): number {
	return [...metrics].reduce((sum, [name, value]) => sum + (name.startsWith('mailctl_queue_size{') ? value : 0), 0);
}

const tenth = (value: number) => Math.round(value * 10) / 10;
const mebibytes = (bytes: number) => tenth(bytes / 2 ** 20);
const sizeMb = (file: string) => mebibytes(statSync(file, {throwIfNoEntry: false})?.size ?? 0);

export function freeBytesOf(folder: string): number {
	const {bavail, bsize} = statfsSync(folder);
	return bavail * bsize;
}

export type Watched = {
	readonly tally: Tally;
	readonly dataDir: string;
	readonly url: string;
	/** Null while there is no daemon. */
	readonly pid: () => number | null;
	/** Latencies since the last call, milliseconds. */
	readonly answerMs: () => readonly number[];
	readonly arriveMs: () => readonly number[];
};

/** Each call, at seconds since the beginning, answers what happened since the one before. */
export function createWatch(watched: Watched): (at: number) => Promise<Sample> {
	let before = {at: 0, counts: [...watched.tally.counts]};
	return async at => {
		const pid = watched.pid();
		const [metrics, daemon] = [
			pid === null ? null : await readMetrics(watched.url),
			pid === null ? null : readProcess(pid),
		];
		const counts = [...watched.tally.counts];
		const count = (name: keyof typeof countOf) => counts[countOf[name]] as number;
		const seconds = Math.max(0.001, at - before.at);
		const since = (name: keyof typeof countOf) =>
			Math.round((count(name) - (before.counts[countOf[name]] as number)) / seconds);
		const metric = (name: string, factor: number) => {
			const value = metrics?.get(name);
			return value === undefined ? null : tenth(value * factor);
		};
		const [answerMs, arriveMs] = [watched.answerMs(), watched.arriveMs()];
		const ofMs = (values: readonly number[], share: number) => {
			const value = quantile(values, share);
			return value === null ? null : tenth(value);
		};
		const sample = {
			at: tenth(at),
			accepted: since('accepted'),
			arrived: since('arrived'),
			refused: since('refused'),
			away: since('away'),
			answerP50: ofMs(answerMs, 0.5),
			answerP99: ofMs(answerMs, 0.99),
			arriveP50: ofMs(arriveMs, 0.5),
			arriveP99: ofMs(arriveMs, 0.99),
			waiting: Math.max(0, count('accepted') - count('arrived')),
			deferred: metric('mailctl_queue_size{state="deferred"}', 1),
			rssMb: daemon?.rssMb ?? null,
			heapMb: metric('mailctl_nodejs_heap_size_used_bytes', 1 / 2 ** 20),
			lagMs: metric('mailctl_nodejs_eventloop_lag_p99_seconds', 1000),
			descriptors: daemon?.descriptors ?? null,
			walMb: sizeMb(join(watched.dataDir, 'mailctl.db-wal')),
			storeMb: sizeMb(join(watched.dataDir, 'mailctl.db')),
			freeMb: mebibytes(freeBytesOf(watched.dataDir)),
		};
		before = {at, counts};
		return sample;
	};
}

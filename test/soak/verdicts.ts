import {calm} from './plan.ts';
import {quantile, type Run, type Sample} from './record.ts';

export type Verdict = {readonly name: string; readonly ok: boolean; readonly text: string};

/**
 * At the end at most so much of the memory that a daemon has that has found its size: after the first start, or the
 * last.
 */
const maxGrowth = 1.2;
/** Seconds; in a shorter run the slope is that of a daemon that still finds its size. */
const sloped = 1800;
export const maxMoreDescriptors = 8;
/** SQLite cuts its log to 64 MiB, and the daemon empties it within seconds after it grew beyond. */
const maxWalMb = 128;
/** After a backup, which keeps the log while it reads. */
const walRestS = 5;
/** From the moment when there is room again until sends are accepted. */
const recoveryS = 5;
/** A stop that waits for MAILCTL_DRAIN_LIMIT has not ended what was under way. */
const maxRestartS = 25;
/** A kill can send what was under way again, MAILCTL_MAX_SESSIONS mails at most. */
const maxByKill = 64;

type Window = {readonly from: number; readonly to: number};

const median = (values: readonly number[]) => quantile(values, 0.5) ?? Number.NaN;

export function judge({facts, samples, moments, end}: Run): readonly Verdict[] {
	if (!end) {
		return [{name: 'end', ok: false, text: 'the run was not finished'}];
	}
	const within = ({from, to}: Window) =>
		samples.filter(({at}) => at >= from * facts.seconds && at < to * facts.seconds);
	const figures = (window: Window, of: (sample: Sample) => number | null) =>
		within(window)
			.map(of)
			.filter(value => value !== null);
	const [firstMb, middleMb, lastMb] = [calm.first, calm.middle, calm.last].map(window =>
		median(figures(window, ({rssMb}) => rssMb)),
	) as [number, number, number];
	const perHour = Math.round(3600 * slope(within({from: calm.middle.from, to: calm.last.to})));
	const replaced = moments.filter(({what}) => what === 'restart' || what === 'kill');
	const backups = moments.filter(({what}) => what === 'backup');
	const [during, outside] = [true, false].map(isDuring =>
		Math.max(
			0,
			...samples
				.filter(({at}) => backups.some(({from, to}) => at >= from && at <= to + walRestS) === isDuring)
				.map(({walMb}) => walMb),
		),
	) as [number, number];
	const mayRefuse = moments.filter(({what}) => what === 'full' || what === 'restart' || what === 'kill');
	const refusedElse = samples
		.filter(({at}) => !mayRefuse.some(({from, to}) => at >= from && at <= to + recoveryS))
		.reduce((sum, {refused}) => sum + refused, 0);
	const gone = end.overdue - end.overdueLeft;
	const [startFds, endFds] = [end.descriptorsBefore, end.descriptorsAfter];
	return [
		{
			name: 'nothing lost',
			ok: end.lost === 0 && end.queued === 0 && end.accepted > 0,
			text: `${end.accepted} accepted, ${end.lost} of them lost, ${end.queued} left in the queue`,
		},
		{
			name: 'nothing twice',
			ok: end.againElse === 0 && end.againByKill <= maxByKill,
			text: `${end.againByKill} came again by the kill, ${end.againElse} otherwise`,
		},
		{
			name: 'answers',
			ok: end.wrong === 0 && refusedElse === 0 && end.arrivedRefused === 0,
			text: `${end.refused} answered 503, ${refusedElse} of them neither on a full disk nor at a stop or start; ${end.arrivedRefused} of them arrived; ${end.wrong} other answers; ${end.away} found no daemon, ${end.unanswered} were cut off`,
		},
		{
			name: 'memory',
			ok: lastMb <= maxGrowth * Math.max(firstMb, middleMb),
			text: `${firstMb} MB after the first start, ${middleMb} MB after the last, ${lastMb} MB at the end${facts.seconds < sloped ? '' : `, ${perHour} MB more an hour in the last life`}`,
		},
		{
			name: 'descriptors',
			ok: endFds <= startFds + maxMoreDescriptors,
			text: `${startFds} at rest before the load, ${endFds} after it; ${median(figures(calm.first, ({descriptors}) => descriptors))} under load at first, ${median(figures(calm.last, ({descriptors}) => descriptors))} at last`,
		},
		{
			name: 'write-ahead log',
			ok: outside <= maxWalMb && end.walAfterMb <= maxWalMb,
			text: `${Math.round(outside)} MB at most, ${Math.round(during)} MB during backups, ${Math.round(end.walAfterMb)} MB at the end`,
		},
		{
			name: 'retention',
			// It shares the writer with mail: where there is no time for all of it, as many go as come.
			ok: end.overdue > 0 && (end.overdueLeft === 0 || gone >= end.accepted),
			text: `${gone} of ${end.overdue} messages whose time was over are gone, ${end.accepted} came`,
		},
		{
			name: 'starts and stops',
			ok: end.exitCodes.every(code => code === 0) && replaced.every(({from, to}) => to - from < maxRestartS),
			text: `exit codes of SIGTERM: ${end.exitCodes.join(', ')}; ${replaced
				.map(({what, from, to}) => `${what} ${(to - from).toFixed(1)} s`)
				.join(', ')}`,
		},
	];
}

/** By which RSS grows, megabytes a second: least squares. */
function slope(samples: readonly Sample[]): number {
	const points = samples.flatMap(({at, rssMb}) => (rssMb === null ? [] : [{x: at, y: rssMb}]));
	const mean = (of: (point: {x: number; y: number}) => number) =>
		points.reduce((sum, point) => sum + of(point), 0) / points.length;
	const [x, y] = [mean(point => point.x), mean(point => point.y)];
	return mean(point => (point.x - x) * (point.y - y)) / mean(point => (point.x - x) ** 2);
}

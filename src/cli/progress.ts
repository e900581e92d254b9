import type {Clock} from '../mail/clock.ts';
import type {Terminal} from './terminal.ts';
import {duration} from './text.ts';

/** How far a long work has come, shown on a terminal and nowhere else. */
export type Progress = {
	/** `part` of the whole, 0 to 1; null: nobody knows how much there is. */
	readonly show: (done: number, part: number | null) => void;
	/** Takes the line away. */
	readonly end: () => void;
};

const everyMs = 100;
const barWidth = 24;

/** `unit` is what is counted: `lines`. */
export function createProgress(terminal: Terminal, clock: Clock, unit: string): Progress {
	const started = clock.monotonic();
	let shown = Number.NEGATIVE_INFINITY;
	return {
		show(done, part) {
			const now = clock.monotonic();
			if (now - shown >= everyMs) {
				shown = now;
				terminal.status(progressLine({done, part, unit, elapsedMs: now - started}));
			}
		},
		end: () => terminal.status(null),
	};
}

/** `[############            ]  50 %  500,000 lines  50,000/s  10s left` */
export function progressLine({
	done,
	part,
	unit,
	elapsedMs,
}: {
	readonly done: number;
	readonly part: number | null;
	readonly unit: string;
	readonly elapsedMs: number;
}): string {
	const rate = elapsedMs > 0 ? Math.round((done / elapsedMs) * 1000) : 0;
	const count = `${grouped(done)} ${unit}  ${grouped(rate)}/s`;
	if (part === null) {
		return count;
	}
	const whole = Math.min(1, part);
	const filled = Math.floor(whole * barWidth);
	const percent = String(Math.floor(whole * 100)).padStart(3);
	const left = whole > 0 ? `  ${duration((elapsedMs * (1 - whole)) / whole)} left` : '';
	return `[${'#'.repeat(filled).padEnd(barWidth)}] ${percent} %  ${count}${left}`;
}

/** 1000000 as `1,000,000`. */
export function grouped(count: number): string {
	return count.toLocaleString('en');
}

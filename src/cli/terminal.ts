import type {Environment} from '../config/settings.ts';
import type {Clock} from '../kit/clock.ts';
import {writeExact} from '../kit/exact-json.ts';
import {cut, duration, grouped, harmless} from './text.ts';

/** Where a command prints: results on standard output, everything else on standard error. */
export type Terminal = {
	/** Columns for tables; off a terminal lines are as long as they are, unless COLUMNS says otherwise. */
	readonly width: number;
	/** Lines that fit; null off a terminal. */
	readonly height: number | null;
	readonly print: (lines: readonly string[]) => void;
	readonly printJson: (value: unknown) => void;
	/** Bytes as they are, for raw mail. */
	readonly write: (bytes: Uint8Array) => void;
	/** A part of a long text; resolves when it is written. False: the reader is gone. */
	readonly pour: (text: string) => Promise<boolean>;
	readonly warn: (line: string) => void;
	/** Replaces the last line of a terminal's standard error; null takes it away. Nothing where that is no terminal. */
	readonly status: (line: string | null) => void;
	readonly bold: (text: string) => string;
	/** Coloured on a terminal, by whether it is good news. */
	readonly tint: (text: string, tone: Tone) => string;
	/** Whether a person can be asked. */
	readonly asks: boolean;
};

export type Tone = 'good' | 'doubtful' | 'bad';

/** Green, yellow and red. */
const tones = {good: 32, doubtful: 33, bad: 31} as const satisfies Record<Tone, number>;

type Streams = {
	readonly stdin: NodeJS.ReadStream;
	readonly stdout: NodeJS.WriteStream;
	readonly stderr: NodeJS.WriteStream;
};

export function createTerminal({stdin, stdout, stderr}: Streams, env: Environment): Terminal {
	const colour = stdout.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb';
	const asked = Number(env.COLUMNS);
	return {
		// Read each time: people resize what they watch.
		get width() {
			return Number.isInteger(asked) && asked > 0 ? asked : stdout.isTTY ? widthOf(stdout) : Number.POSITIVE_INFINITY;
		},
		get height() {
			return stdout.isTTY ? stdout.rows || 24 : null;
		},
		print: lines => void stdout.write(harmless(lines.map(line => `${line}\n`).join(''))),
		printJson: value => void stdout.write(`${jsonOf(value, stdout.isTTY ? 2 : undefined)}\n`),
		write: bytes => void stdout.write(bytes),
		pour: text =>
			new Promise((resolve, reject) => {
				stdout.write(text, (error?: NodeJS.ErrnoException | null) => {
					if (error && error.code !== 'EPIPE') {
						reject(error);
					} else {
						resolve(!error);
					}
				});
			}),
		warn: line => void stderr.write(harmless(`${line}\n`)),
		status(line) {
			if (stderr.isTTY === true) {
				// Cut to the width: a line that wraps could not be replaced.
				stderr.write(`\r\x1b[K${line === null ? '' : cut(harmless(line), widthOf(stderr) - 1)}`);
			}
		},
		bold: text => (colour ? `\x1b[1m${text}\x1b[22m` : text),
		tint: (text, tone) => (colour ? `\x1b[${tones[tone]}m${text}\x1b[39m` : text),
		asks: stdin.isTTY === true && stderr.isTTY === true,
	};
}

/** JSON writes C1 controls as they are, and terminals obey them too: escaped they mean the same. */
function jsonOf(value: unknown, space: number | undefined): string {
	return writeExact(value, space).replace(/[\u007f-\u009f]/g, control => `\\u00${control.charCodeAt(0).toString(16)}`);
}

/** A terminal of unknown size, as `docker exec -t` makes them, says 0. */
function widthOf(stream: {readonly columns: number}): number {
	return stream.columns || 80;
}

/** How far a long work has come, shown on a terminal and nowhere else. */
type Progress = {
	/** `part` of the whole, 0 to 1; null: the whole is not known. */
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
	// Less than a hundredth says nothing of the rest.
	const left = whole >= 0.01 ? `  ${duration((elapsedMs * (1 - whole)) / whole)} left` : '';
	return `[${'#'.repeat(filled).padEnd(barWidth)}] ${percent} %  ${count}${left}`;
}

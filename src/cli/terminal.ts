import type {Environment} from '../config/settings.ts';
import type {Clock} from '../kit/clock.ts';
import {writeExact} from '../kit/exact-json.ts';
import {cut, duration, grouped, harmless} from './terminal-text.ts';

export type Tone = 'good' | 'doubtful' | 'bad';

/** Green, yellow and red. */
const tones = {good: 32, doubtful: 33, bad: 31} as const satisfies Record<Tone, number>;

type Streams = {
	readonly stdin: NodeJS.ReadStream;
	readonly stdout: NodeJS.WriteStream;
	readonly stderr: NodeJS.WriteStream;
};

/** Where a command prints: results on standard output, everything else on standard error. */
export class Terminal {
	readonly #stdout: NodeJS.WriteStream;
	readonly #stderr: NodeJS.WriteStream;
	readonly #asked: number;
	readonly #colour: boolean;
	/** Whether a person can be asked. */
	readonly asks: boolean;

	constructor({stdin, stdout, stderr}: Streams, env: Environment) {
		this.#stdout = stdout;
		this.#stderr = stderr;
		this.#asked = Number(env.COLUMNS);
		this.#colour = stdout.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb';
		this.asks = stdin.isTTY === true && stderr.isTTY === true;
	}

	/**
	 * Columns for tables; off a terminal lines are as long as they are, unless COLUMNS says otherwise. Read each time:
	 * people resize what they watch.
	 */
	get width(): number {
		if (Number.isInteger(this.#asked) && this.#asked > 0) {
			return this.#asked;
		}
		return this.#stdout.isTTY ? widthOf(this.#stdout) : Number.POSITIVE_INFINITY;
	}

	/** Lines that fit; null off a terminal. */
	get height(): number | null {
		return this.#stdout.isTTY ? this.#stdout.rows || 24 : null;
	}

	readonly print = (lines: readonly string[]): void =>
		void this.#stdout.write(harmless(lines.map(line => `${line}\n`).join('')));

	readonly printJson = (value: unknown): void =>
		void this.#stdout.write(`${jsonOf(value, this.#stdout.isTTY ? 2 : undefined)}\n`);

	/** Bytes as they are, for raw mail. */
	readonly write = (bytes: Uint8Array): void => void this.#stdout.write(bytes);

	/** A part of a long text; resolves when it is written. False: the reader is gone. */
	readonly pour = (text: string): Promise<boolean> =>
		new Promise((resolve, reject) => {
			this.#stdout.write(text, (error?: NodeJS.ErrnoException | null) => {
				if (error && error.code !== 'EPIPE') {
					reject(error);
				} else {
					resolve(!error);
				}
			});
		});

	readonly warn = (line: string): void => void this.#stderr.write(harmless(`${line}\n`));

	/** Replaces the last line of a terminal's standard error; null takes it away. Nothing where that is no terminal. */
	readonly status = (line: string | null): void => {
		if (this.#stderr.isTTY === true) {
			// Cut to the width: a line that wraps could not be replaced.
			this.#stderr.write(`\r\x1b[K${line === null ? '' : cut(harmless(line), widthOf(this.#stderr) - 1)}`);
		}
	};

	readonly bold = (text: string): string => (this.#colour ? `\x1b[1m${text}\x1b[22m` : text);

	/** Coloured on a terminal, by whether it is good news. */
	readonly tint = (text: string, tone: Tone): string => (this.#colour ? `\x1b[${tones[tone]}m${text}\x1b[39m` : text);
}

/** JSON writes C1 controls as they are, and terminals obey them too: escaped they mean the same. */
function jsonOf(value: unknown, space: number | undefined): string {
	return writeExact(value, space).replace(
		/[\u007f-\u009f]/g,
		control => `\\u00${control.charCodeAt(0).toString(16)}`,
	);
}

/** A terminal of unknown size, as `docker exec -t` makes them, says 0. */
function widthOf(stream: {readonly columns: number}): number {
	return stream.columns || 80;
}

const everyMs = 100;
const barWidth = 24;

/** How far a long work has come, shown on a terminal and nowhere else; `unit` is what is counted: `lines`. */
export class Progress {
	readonly #terminal: Terminal;
	readonly #clock: Clock;
	readonly #unit: string;
	readonly #started: number;
	#shown = Number.NEGATIVE_INFINITY;

	constructor(terminal: Terminal, clock: Clock, unit: string) {
		this.#terminal = terminal;
		this.#clock = clock;
		this.#unit = unit;
		this.#started = clock.monotonic();
	}

	/** `part` of the whole, 0 to 1; null: the whole is not known. */
	show(done: number, part: number | null): void {
		const now = this.#clock.monotonic();
		if (now - this.#shown >= everyMs) {
			this.#shown = now;
			this.#terminal.status(progressLine({done, part, unit: this.#unit, elapsedMs: now - this.#started}));
		}
	}

	/** Takes the line away. */
	end(): void {
		this.#terminal.status(null);
	}
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

import type {Environment} from '../config/settings.ts';
import type {Clock} from '../kit/clock.ts';
import {writeExact} from '../kit/exact-json.ts';
import {cut, duration, escapeControls, grouped} from './terminal-text.ts';

export type Tone = 'good' | 'doubtful' | 'bad';

/** Green, yellow and red. */
const tones = {good: 32, doubtful: 33, bad: 31} as const satisfies Record<Tone, number>;

type Streams = {
	readonly stdin: NodeJS.ReadStream;
	readonly stdout: NodeJS.WriteStream;
	readonly stderr: NodeJS.WriteStream;
};

/** The output of a command: results on standard output, everything else on standard error. */
export class Terminal {
	readonly #stdout: NodeJS.WriteStream;
	readonly #stderr: NodeJS.WriteStream;
	readonly #columns: number;
	readonly #hasColor: boolean;
	/** Whether questions can be asked. */
	readonly canAsk: boolean;

	constructor({stdin, stdout, stderr}: Streams, env: Environment) {
		this.#stdout = stdout;
		this.#stderr = stderr;
		this.#columns = Number(env.COLUMNS);
		this.#hasColor = stdout.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb';
		this.canAsk = stdin.isTTY === true && stderr.isTTY === true;
	}

	/**
	 * The width for tables; without a terminal, lines are unlimited unless COLUMNS is set. It is read every time,
	 * because people resize their terminals.
	 */
	get width(): number {
		if (Number.isInteger(this.#columns) && this.#columns > 0) {
			return this.#columns;
		}
		return this.#stdout.isTTY ? columnsOf(this.#stdout) : Number.POSITIVE_INFINITY;
	}

	/** The number of lines, or `null` without a terminal. */
	get height(): number | null {
		return this.#stdout.isTTY ? this.#stdout.rows || 24 : null;
	}

	readonly print = (lines: readonly string[]): void =>
		void this.#stdout.write(escapeControls(lines.map(line => `${line}\n`).join('')));

	readonly printJson = (value: unknown): void =>
		void this.#stdout.write(`${toJson(value, this.#stdout.isTTY ? 2 : undefined)}\n`);

	/** Writes bytes unchanged, for raw messages. */
	readonly write = (bytes: Uint8Array): void => void this.#stdout.write(bytes);

	/** Writes a part of a long text. Resolves once it is written, with `false` if the reader has closed the output. */
	readonly writeText = (text: string): Promise<boolean> =>
		new Promise((resolve, reject) => {
			this.#stdout.write(text, (error?: NodeJS.ErrnoException | null) => {
				if (error && error.code !== 'EPIPE') {
					reject(error);
				} else {
					resolve(!error);
				}
			});
		});

	readonly warn = (line: string): void => void this.#stderr.write(escapeControls(`${line}\n`));

	/** Replaces the status line on standard error, if that is a terminal; `null` removes it. */
	readonly status = (line: string | null): void => {
		if (this.#stderr.isTTY === true) {
			// Cut to the width, because a line that wraps could not be replaced.
			this.#stderr.write(
				`\r\x1b[K${line === null ? '' : cut(escapeControls(line), columnsOf(this.#stderr) - 1)}`,
			);
		}
	};

	readonly bold = (text: string): string => (this.#hasColor ? `\x1b[1m${text}\x1b[22m` : text);

	/** Colors a text on a terminal by its tone. */
	readonly tint = (text: string, tone: Tone): string =>
		this.#hasColor ? `\x1b[${tones[tone]}m${text}\x1b[39m` : text;
}

/** Formats JSON. C1 controls are escaped, because JSON leaves them as they are and terminals interpret them. */
function toJson(value: unknown, space: number | undefined): string {
	return writeExact(value, space).replace(
		/[\u007f-\u009f]/g,
		control => `\\u00${control.charCodeAt(0).toString(16)}`,
	);
}

/** Returns the width of a terminal; one of unknown size, as with `docker exec -t`, reports 0. */
function columnsOf(stream: {readonly columns: number}): number {
	return stream.columns || 80;
}

const refreshMs = 100;
const barWidth = 24;

/** A progress line, shown only on a terminal; `unit` names what is counted, such as `lines`. */
export class Progress {
	readonly #terminal: Terminal;
	readonly #clock: Clock;
	readonly #unit: string;
	readonly #started: number;
	#lastShownAt = Number.NEGATIVE_INFINITY;

	constructor(terminal: Terminal, clock: Clock, unit: string) {
		this.#terminal = terminal;
		this.#clock = clock;
		this.#unit = unit;
		this.#started = clock.monotonic();
	}

	/** Shows the progress; `part` is the fraction that is done, or `null` if the total is unknown. */
	show(done: number, part: number | null): void {
		const now = this.#clock.monotonic();
		if (now - this.#lastShownAt >= refreshMs) {
			this.#lastShownAt = now;
			this.#terminal.status(progressLine({done, part, unit: this.#unit, elapsedMs: now - this.#started}));
		}
	}

	/** Removes the line. */
	end(): void {
		this.#terminal.status(null);
	}
}

type ProgressState = {
	readonly done: number;
	readonly part: number | null;
	readonly unit: string;
	readonly elapsedMs: number;
};

/** Formats `[############            ]  50 %  500,000 lines  50,000/s  10s left`. */
export function progressLine({done, part, unit, elapsedMs}: ProgressState): string {
	const rate = elapsedMs > 0 ? Math.round((done / elapsedMs) * 1000) : 0;
	const count = `${grouped(done)} ${unit}  ${grouped(rate)}/s`;
	if (part === null) {
		return count;
	}
	const fraction = Math.min(1, part);
	const filled = Math.floor(fraction * barWidth);
	const percent = String(Math.floor(fraction * 100)).padStart(3);
	// Below one percent, the remaining time cannot be estimated.
	const remaining = fraction >= 0.01 ? `  ${duration((elapsedMs * (1 - fraction)) / fraction)} left` : '';
	return `[${'#'.repeat(filled).padEnd(barWidth)}] ${percent} %  ${count}${remaining}`;
}

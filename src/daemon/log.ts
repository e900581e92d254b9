import {constants, openSync, write, writeSync} from 'node:fs';
import process from 'node:process';
import {isatty} from 'node:tty';
import pino, {type DestinationStream, type Logger} from 'pino';
import {systemCode} from '../kit/system-error.ts';
import {prettyLine} from './pretty-line.ts';

type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

type LogInput = {
	readonly level: LogLevel;
	readonly format: 'json' | 'pretty';
	/** Whether `pretty` uses colors, which only a terminal should get. */
	readonly hasColors: boolean;
	/** The destination for lines; standard output by default. */
	readonly destination?: LogDestination;
};

type LogDestination = DestinationStream & Partial<Pick<StandardOutput, 'dropped'>>;

export type Log = {
	readonly logger: Logger;
	/** Takes effect at once (SIGHUP). */
	readonly setLevel: (level: LogLevel) => void;
	/** The number of dropped lines (see `StandardOutput`). */
	readonly dropped: () => number;
};

/**
 * Creates the log, which writes one line per record to standard output: level, time, then the record's own fields.
 *
 * This is the main function of the folder. It relies on pino for the JSON format; `pretty-line.ts` is the format for people.
 * A slow or missing reader of the log never blocks the program: lines are dropped and counted instead.
 */
export function createLog({level, format, hasColors, destination = new StandardOutput()}: LogInput): Log {
	const stream: DestinationStream = {
		write(line) {
			destination.write(format === 'json' ? line : prettyLine(line, hasColors));
		},
	};
	const logger = pino(
		{
			level,
			base: null,
			timestamp: pino.stdTimeFunctions.isoTime,
			formatters: {level: label => ({level: label})},
			serializers: {err: errorFields},
		},
		stream,
	);
	return {
		logger,
		setLevel(next) {
			logger.level = next;
		},
		dropped: () => destination.dropped?.() ?? 0,
	};
}

// Only named fields, because drivers attach statements, addresses and credentials to their errors.
function errorFields(error: unknown): object {
	if (!(error instanceof Error)) {
		return {message: String(error)};
	}

	const {name, message, stack, cause} = error;
	const code = 'code' in error && typeof error.code === 'string' ? {code: error.code} : {};
	return {
		type: name,
		message,
		...code,
		stack,
		...(cause === undefined ? {} : {cause: errorFields(cause)}),
	};
}

const maxBuffered = 16 << 20;
const maxWriteBytes = 64 << 10;
const retryMs = 100;
const flushMs = 1000;
/** Errors of a slow reader or full disk, after which the same bytes may be written later. Any other is permanent. */
const transientErrors = new Set(['EAGAIN', 'EBUSY', 'ENOSPC', 'EDQUOT']);

/**
 * Writes log lines to standard output without waiting for the reader: one write at a time, in libuv's pool, of all
 * lines that have accumulated. Writing never blocks or throws; what cannot be written is dropped and counted. `kill -9`
 * loses only the lines of one turn of the event loop.
 */
class StandardOutput {
	readonly #fd = nonBlocking(process.stdout.fd);
	#lines: string[] = [];
	/** The size of `#lines`. */
	#buffered = 0;
	#dropped = 0;
	/** The rest of the current write, so that a line is never torn while its reader lives. */
	#current: Buffer = Buffer.alloc(0);
	#state: 'idle' | 'scheduled' | 'inPool' = 'idle';

	constructor() {
		process.on('exit', () => this.#flushSync());
	}

	write(line: string): void {
		if (this.#buffered + sizeOf(line) > maxBuffered) {
			this.#dropped++;
			return;
		}
		this.#lines.push(line);
		this.#buffered += sizeOf(line);
		if (this.#state === 'idle') {
			this.#state = 'scheduled';
			setImmediate(() => this.#writeNext());
		}
	}

	/** Returns how many lines were lost, because the reader is gone or the buffer was full. */
	dropped(): number {
		return this.#dropped;
	}

	/** Writes buffered lines when the process exits, waiting at most a second for a slow reader. */
	#flushSync(): void {
		const deadline = performance.now() + flushMs;
		if (this.#state === 'inPool') {
			// The pool has these bytes, and without a turn of the event loop nobody can know how many it wrote.
			this.#current = Buffer.alloc(0);
		}
		for (this.#takeLines(); this.#current.length > 0; this.#takeLines()) {
			try {
				this.#current = this.#current.subarray(writeSync(this.#fd, this.#current));
			} catch (error) {
				if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || performance.now() > deadline) {
					this.#dropAll();
					return;
				}
				Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
			}
		}
	}

	#writeNext(): void {
		this.#takeLines();
		if (this.#current.length === 0) {
			this.#state = 'idle';
			return;
		}
		this.#state = 'inPool';
		write(this.#fd, this.#current, (error, written) => {
			if (error && transientErrors.has(systemCode(error))) {
				this.#state = 'scheduled';
				setTimeout(() => this.#writeNext(), retryMs).unref();
				return;
			}
			if (error) {
				this.#dropAll();
			} else {
				this.#current = this.#current.subarray(written);
			}
			this.#writeNext();
		});
	}

	/** Begins the next write, unless one has bytes left. */
	#takeLines(): void {
		if (this.#current.length > 0 || this.#lines.length === 0) {
			return;
		}
		let [count, bytes] = [0, 0];
		while (count < this.#lines.length && (count === 0 || bytes + sizeOf(this.#lines[count]) <= maxWriteBytes)) {
			bytes += sizeOf(this.#lines[count++]);
		}
		this.#current = Buffer.from(this.#lines.slice(0, count).join(''));
		this.#lines = this.#lines.slice(count);
		this.#buffered -= bytes;
	}

	#dropAll(): void {
		this.#dropped += this.#lines.length + this.#current.toString('latin1').split('\n').length - 1;
		[this.#lines, this.#buffered, this.#current] = [[], 0, Buffer.alloc(0)];
	}
}

/** Returns the length in UTF-16 units: close enough to bytes for limits, and free to compute. */
function sizeOf(line = ''): number {
	return line.length;
}

/**
 * Makes a terminal non-blocking by opening it again. `process.stdout` does that for pipes and sockets, but writes to a
 * terminal block, for example for hours after Ctrl-S. Another user's terminal cannot be opened, and stays as it is.
 */
function nonBlocking(fd: number): number {
	if (!isatty(fd)) {
		return fd;
	}
	try {
		return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
	} catch {
		return fd;
	}
}

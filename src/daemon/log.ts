import {constants, openSync, write, writeSync} from 'node:fs';
import process from 'node:process';
import {isatty} from 'node:tty';
import pino, {type DestinationStream, type Logger} from 'pino';
import {systemCode} from '../kit/system-error.ts';
import {prettyLine} from './lines.ts';

type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

type LogInput = {
	readonly level: LogLevel;
	readonly format: 'json' | 'pretty';
	/** Whether `pretty` uses colors, which only a terminal should get. */
	readonly hasColors: boolean;
	/** The destination for lines; standard output by default. */
	readonly destination?: LogDestination;
};

type LogDestination = DestinationStream & Partial<Output>;

export type Log = {
	readonly logger: Logger;
	/** Takes effect at once (SIGHUP). */
	readonly setLevel: (level: LogLevel) => void;
	/** The number of dropped lines (see `Output`). */
	readonly dropped: () => number;
};

/**
 * Creates the log, which writes one line per record to standard output: level, time, then the record's own fields.
 *
 * This is the main function of the folder. It relies on pino for the JSON format; `lines.ts` is the format for people.
 * A slow or missing reader of the log never blocks the program: lines are dropped and counted instead.
 */
export function createLog({level, format, hasColors, destination = createOutput()}: LogInput): Log {
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

/** The output for log lines. Writing never blocks or throws; what cannot be written is dropped and counted. */
type Output = {
	readonly write: (line: string) => void;
	/** The number of lost lines, because the reader is gone, or read nothing until the buffer was full. */
	readonly dropped: () => number;
	/** Writes buffered lines, waiting at most a second for a slow reader. Called when the process exits. */
	readonly flushSync: () => void;
};

const fullBuffer = 16 << 20;
const maxWriteBytes = 64 << 10;
const retryMs = 100;
const flushMs = 1000;
/** Errors of a slow reader or full disk, after which the same bytes may be written later. Any other is permanent. */
const passing = new Set(['EAGAIN', 'EBUSY', 'ENOSPC', 'EDQUOT']);

/**
 * Writes to standard output without waiting for the reader: one write at a time, in libuv's pool, of all lines that
 * have accumulated. `kill -9` loses only the lines of one turn of the event loop.
 */
function createOutput(fd = nonBlocking(process.stdout.fd)): Output {
	let lines: string[] = [];
	let held = 0;
	let dropped = 0;
	/** The rest of the current write, so that a line is never torn while its reader lives. */
	let begun: Buffer = Buffer.alloc(0);
	let state: 'idle' | 'scheduled' | 'inPool' = 'idle';

	function schedule(): void {
		if (state === 'idle') {
			state = 'scheduled';
			setImmediate(writeNext);
		}
	}

	function writeNext(): void {
		takeLines();
		if (begun.length === 0) {
			state = 'idle';
			return;
		}
		state = 'inPool';
		write(fd, begun, (error, written) => {
			if (error && passing.has(systemCode(error))) {
				state = 'scheduled';
				setTimeout(writeNext, retryMs).unref();
				return;
			}
			if (error) {
				dropAll();
			} else {
				begun = begun.subarray(written);
			}
			writeNext();
		});
	}

	function takeLines(): void {
		if (begun.length > 0 || lines.length === 0) {
			return;
		}
		let [count, bytes] = [0, 0];
		while (count < lines.length && (count === 0 || bytes + sizeOf(lines[count]) <= maxWriteBytes)) {
			bytes += sizeOf(lines[count++]);
		}
		begun = Buffer.from(lines.slice(0, count).join(''));
		lines = lines.slice(count);
		held -= bytes;
	}

	function dropAll(): void {
		dropped += lines.length + begun.toString('latin1').split('\n').length - 1;
		[lines, held, begun] = [[], 0, Buffer.alloc(0)];
	}

	const output: Output = {
		write(line) {
			if (held + sizeOf(line) > fullBuffer) {
				dropped++;
				return;
			}
			lines.push(line);
			held += sizeOf(line);
			schedule();
		},
		dropped: () => dropped,
		flushSync() {
			const until = performance.now() + flushMs;
			if (state === 'inPool') {
				// The pool has these bytes, and without a turn of the event loop nobody can know how many it wrote.
				begun = Buffer.alloc(0);
			}
			for (takeLines(); begun.length > 0; takeLines()) {
				try {
					begun = begun.subarray(writeSync(fd, begun));
				} catch (error) {
					if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || performance.now() > until) {
						dropAll();
						return;
					}
					Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
				}
			}
		},
	};
	process.on('exit', output.flushSync);
	return output;
}

/** UTF-16 units: close enough to bytes for limits, and free to compute. */
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

import pino, {type DestinationStream, type Logger} from 'pino';
import {prettyLine} from './pretty.ts';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

export type LogInput = {
	readonly level: LogLevel;
	readonly format: 'json' | 'pretty';
	/** Colours for `pretty`; only a terminal gets them. */
	readonly colour: boolean;
	/** Where lines go; standard output if left out. */
	readonly destination?: LogDestination;
};

export type LogDestination = DestinationStream & {readonly flushSync?: () => void};

export type Log = {
	readonly logger: Logger;
	/** Takes effect at once (SIGHUP). */
	readonly setLevel: (level: LogLevel) => void;
	/** Writes what is still held; to be called last. */
	readonly flush: () => void;
};

const fullBuffer = 16 << 20;

/** One line per record to standard output: level, time, then the record's own fields. */
export function createLog({level, format, colour, destination = createStdout()}: LogInput): Log {
	const stream: DestinationStream =
		format === 'json' ? destination : {write: line => destination.write(prettyLine(line, colour))};
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
		flush() {
			destination.flushSync?.();
		},
	};
}

/**
 * Asynchronous, unbuffered: a line costs 5 µs either way, but a synchronous write to a full pipe stops the whole daemon until
 * the reader comes round (120 µs a line into `cat`, measured). What `kill -9` loses is one turn of the event loop.
 * A reader that stopped altogether costs 16 MiB, then lines.
 */
function createStdout(): LogDestination {
	const stdout = pino.destination({fd: 1, sync: false, maxLength: fullBuffer});
	// EPIPE: nobody reads the log any more; mail goes on.
	stdout.on('error', () => undefined);
	return stdout;
}

// Named fields only: drivers hang statements, addresses and credentials on their errors.
function errorFields(error: unknown): object {
	if (!(error instanceof Error)) {
		return {message: String(error)};
	}

	const {name, message, stack, cause} = error;
	const code = 'code' in error && typeof error.code === 'string' ? {code: error.code} : {};
	return {type: name, message, ...code, stack, ...(cause === undefined ? {} : {cause: errorFields(cause)})};
}

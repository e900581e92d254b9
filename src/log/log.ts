import pino, {type DestinationStream, type Logger} from 'pino';
import {createOutput, type Output} from './output.ts';
import {prettyLine} from './pretty.ts';
import {createRecentLines, type RecentLines} from './recent.ts';
import {inSource} from './source-places.ts';

type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

export type LogInput = {
	readonly level: LogLevel;
	readonly format: 'json' | 'pretty';
	/** Colours for `pretty`; only a terminal gets them. */
	readonly colour: boolean;
	/** Where lines go; standard output if left out. */
	readonly destination?: LogDestination;
};

type LogDestination = DestinationStream & Partial<Output>;

export type Log = {
	readonly logger: Logger;
	/** Takes effect at once (SIGHUP). */
	readonly setLevel: (level: LogLevel) => void;
	/** What was written last. */
	readonly recent: RecentLines;
	/** Lines that nobody took, see `Output`. */
	readonly dropped: () => number;
};

/** One line per record to standard output: level, time, then the record's own fields. */
export function createLog({level, format, colour, destination = createOutput()}: LogInput): Log {
	const recent = createRecentLines();
	const stream: DestinationStream = {
		write(line) {
			recent.note(line);
			destination.write(format === 'json' ? line : prettyLine(line, colour));
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
		recent,
		dropped: () => destination.dropped?.() ?? 0,
	};
}

// Named fields only: drivers hang statements, addresses and credentials on their errors.
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
		stack: inSource(stack),
		...(cause === undefined ? {} : {cause: errorFields(cause)}),
	};
}

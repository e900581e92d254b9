import {unprintable} from '../kit/text.ts';

// Controls (also of C1, which terminals obey) and what reorders text: a server's reply must not draw on the screen.
const unsafe = new RegExp(`[${unprintable}]+`, 'gu');
const levelColours: Readonly<Record<string, number>> = {TRACE: 90, DEBUG: 90, INFO: 32, WARN: 33, ERROR: 31, FATAL: 35};
const levelWidth = 5;
const eventWidth = 10;

/** A JSON log line for people: time, level, event or message, then `name=value` for each field that has one. */
export function prettyLine(line: string, colour: boolean): string {
	const {level, time, event, texts, fields, error} = readLine(line);
	const paint = (text: string, code: number) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text);
	const severity = level.toUpperCase();
	const parts = [
		paint(time.slice(11, 23), 90),
		paint(severity.padEnd(levelWidth), levelColours[severity] ?? 0),
		...(event === null ? [] : [paint(event.padEnd(eventWidth), 1)]),
		...texts,
		...fields.map(([name, value]) => `${paint(`${name}=`, 90)}${value}`),
	];
	return `${parts.join(' ')}${error.map(part => `\n    ${part}`).join('')}\n`;
}

/** A line of the log, without characters that would draw. */
export type ReadLine = {
	/** RFC 3339; empty where the line is not ours. */
	readonly time: string;
	readonly level: string;
	readonly event: string | null;
	/** Whom it is about, and a sentence. */
	readonly texts: readonly string[];
	readonly fields: ReadonlyArray<readonly [name: string, value: string]>;
	/** The error's stack, line by line. */
	readonly error: readonly string[];
};

export function readLine(line: string): ReadLine {
	const {level, time, event, msg, recipient, err, ...fields} = parseRecord(line);
	return {
		time: clean(time ?? ''),
		level: clean(level ?? ''),
		event: event === undefined ? null : clean(event),
		texts: [recipient, msg].filter(isGiven).map(clean),
		fields: Object.entries(fields)
			.filter(([, value]) => isGiven(value))
			.map(([name, value]) => [clean(name), clean(value)]),
		error: errorLines(err),
	};
}

function parseRecord(line: string): Record<string, unknown> {
	try {
		return Object(JSON.parse(line));
	} catch {
		return {msg: line};
	}
}

function isGiven(value: unknown): boolean {
	return value !== null && value !== undefined;
}

function clean(value: unknown): string {
	const text = typeof value === 'string' ? value : JSON.stringify(value);
	return text.replace(unsafe, ' ').trim();
}

function errorLines(error: unknown): string[] {
	const {stack, message} = Object(error) as {stack?: unknown; message?: unknown};
	const text = stack ?? message;
	return typeof text === 'string' ? text.split('\n').map(clean) : [];
}

/** Lines of each kind that are remembered. */
const most = 100;
/** UTF-16 units of a line. */
const longest = 4096;
const warning = /^\{"level":"(?:warn|error|fatal)"/;

/** The newest lines of the log, oldest first: JSON, as they were written, each with its end cut off where it is long. */
export class RecentLines {
	readonly #all = new Ring();
	readonly #warnings = new Ring();

	all(): readonly string[] {
		return this.#all.lines();
	}

	/** Those that warn or worse, which a busy daemon would soon push out of the others. */
	warnings(): readonly string[] {
		return this.#warnings.lines();
	}

	note(line: string): void {
		const kept = line.length > longest ? line.slice(0, longest) : line;
		this.#all.add(kept);
		if (warning.test(kept)) {
			this.#warnings.add(kept);
		}
	}
}

class Ring {
	readonly #kept: string[] = [];
	#next = 0;

	add(line: string): void {
		this.#kept[this.#next] = line;
		this.#next = (this.#next + 1) % most;
	}

	lines(): readonly string[] {
		const kept = this.#kept;
		return kept.length < most ? [...kept] : [...kept.slice(this.#next), ...kept.slice(0, this.#next)];
	}
}

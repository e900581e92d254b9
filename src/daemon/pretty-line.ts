import {unprintable} from '../kit/text.ts';

// Controls (including C1, which terminals obey) and characters that reorder text. A server's reply must not be able to
// draw on the screen.
const unsafe = new RegExp(`[${unprintable}]+`, 'gu');
const levelColors: Readonly<Record<string, number>> = {TRACE: 90, DEBUG: 90, INFO: 32, WARN: 33, ERROR: 31, FATAL: 35};
const levelWidth = 5;
const eventWidth = 10;

/** Formats a JSON log line for people: time, level, event or message, then `name=value` for each field with a value. */
export function prettyLine(line: string, hasColors: boolean): string {
	const {level, time, event, msg, recipient, err, ...fields} = parseRecord(line);
	const paint = (text: string, code: number) => (hasColors ? `\u001b[${code}m${text}\u001b[0m` : text);
	const severity = clean(level ?? '').toUpperCase();
	const parts = [
		paint(clean(time ?? '').slice(11, 23), 90),
		paint(severity.padEnd(levelWidth), levelColors[severity] ?? 0),
		...(event === undefined ? [] : [paint(clean(event).padEnd(eventWidth), 1)]),
		...[recipient, msg].filter(hasValue).map(clean),
		...Object.entries(fields)
			.filter(([, value]) => hasValue(value))
			.map(([name, value]) => `${paint(`${clean(name)}=`, 90)}${clean(value)}`),
	];
	return `${[parts.join(' '), ...errorLines(err)].join('\n    ')}\n`;
}

function parseRecord(line: string): Record<string, unknown> {
	try {
		return Object(JSON.parse(line));
	} catch {
		return {msg: line};
	}
}

function hasValue(value: unknown): boolean {
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

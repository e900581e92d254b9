/** An original header field: its name in lower case, and its folded lines without the last CRLF. */
export type SourceField = {readonly name: string; readonly line: string};

/** An original message: its header fields, and the body after the blank line. */
export type Source = {readonly fields: readonly SourceField[]; readonly body: Buffer};

export type ReadSource =
	| {readonly ok: true; readonly source: Source}
	/** A clause such as `the header …`. */
	| {readonly ok: false; readonly problem: string};

/** The limits for a header. */
export type HeaderLimits = {readonly octets: number; readonly fields: number};

const blankLine = '\r\n\r\n';
const unlimited: HeaderLimits = {octets: Number.POSITIVE_INFINITY, fields: Number.POSITIVE_INFINITY};
// RFC 5322 §2.2.
const field = /^([!-9;-~]{1,100}):/;

/**
 * Parses a message strictly, so that every later parser finds the same fields: CRLF line ends, ASCII, and nothing but
 * fields in the header. `octetProblem` checks the octets of the body.
 */
export function readSource(raw: Buffer, limits = unlimited): ReadSource {
	const read = readAnySource(raw, limits);
	return read.ok && read.source.fields.some(({line}) => !asciiLines.test(line))
		? problem('the header has characters that are not ASCII')
		: read;
}

const asciiLines = /^[\t\r\n\x20-\x7e]*$/;

/** Parses a message like `readSource`, but allows fields with any octets, as latin1, and lines of any length. */
export function readAnySource(raw: Buffer, limits: HeaderLimits): ReadSource {
	const blank = raw.indexOf(blankLine);
	const end = blank === -1 ? raw.length : blank;
	if (end > limits.octets) {
		return problem(`the header is longer than ${limits.octets} octets`);
	}
	const header = raw.toString('latin1', 0, end).replace(/\r\n$/, '');
	const fields: Array<{readonly name: string; line: string}> = [];
	for (const line of header.split('\r\n')) {
		const last = fields.at(-1);
		const name = field.exec(line)?.[1];
		if (last && /^[\t ]+[^\t ]/.test(line)) {
			last.line += `\r\n${line}`;
		} else if (name === undefined) {
			return problem('the header has a line that is not a field');
		} else if (fields.length === limits.fields) {
			return problem(`the header has more than ${limits.fields} fields`);
		} else {
			fields.push({name: name.toLowerCase(), line});
		}
	}
	const body = blank === -1 ? raw.subarray(raw.length) : raw.subarray(blank + blankLine.length);
	return {ok: true, source: {fields, body}};
}

/** Returns the value of a field, unfolded but not decoded. */
export function fieldValue({line}: SourceField): string {
	return line
		.slice(line.indexOf(':') + 1)
		.replaceAll('\r\n', '')
		.trim();
}

/**
 * Removes the To and Cc fields that name an address (in comparison form), even if they name others too (RFC 5322
 * §3.6.3). Returns `null` if no field names it, or the text is not a message.
 */
export function withoutRecipient(raw: Buffer, addressKey: string): Buffer | null {
	const read = readSource(raw);
	const mentionsAddress = (header: SourceField) =>
		(header.name === 'to' || header.name === 'cc') &&
		fieldValue(header)
			.toLowerCase()
			.split(/[\s<>()",:;]+/)
			.includes(addressKey);
	if (!read.ok || !read.source.fields.some(mentionsAddress)) {
		return null;
	}
	const replacement = ({name}: SourceField) => (name === 'to' ? ['To: undisclosed-recipients:;'] : []);
	const lines = read.source.fields.flatMap(header => (mentionsAddress(header) ? replacement(header) : [header.line]));
	return Buffer.concat([Buffer.from(`${lines.join('\r\n')}${blankLine}`, 'latin1'), read.source.body]);
}

const [lf, cr] = [0x0a, 0x0d];
/** The maximum line length without CRLF (RFC 5322 §2.1.1). */
export const maxLineLength = 998;

/** Whether a field is ASCII without overlong lines. */
export function isGoodLine(line: string): boolean {
	return (
		asciiLines.test(line) &&
		(line.length <= maxLineLength || line.split('\r\n').every(text => text.length <= maxLineLength))
	);
}

/** Returns where the first overlong line begins, or -1. */
export function longLineIn(octets: Buffer): number {
	for (let start = 0; octets.length - start > maxLineLength; ) {
		// Searching backwards finds the end of the last line that fits, and skips all shorter lines before it.
		const end = octets.lastIndexOf(lf, start + maxLineLength + 1);
		if (end < start) {
			return start;
		}
		start = end + 1;
	}
	return -1;
}

/** Returns the number of the line that begins there, counted from 1. */
export function lineNumber(octets: Buffer, start: number): number {
	let number = 1;
	for (let index = 0; index < start; index++) {
		number += octets[index] === lf ? 1 : 0;
	}
	return number;
}

/** Returns the problem with the octets of a message, wherever they are, or `null`. */
export function octetProblem(raw: Buffer): string | null {
	for (let index = 0; index < raw.length; index++) {
		const octet = raw[index] as number;
		if (octet > cr) {
			continue;
		}
		if (octet === 0) {
			return 'the message has a NUL octet';
		}
		if (octet === lf || (octet === cr && raw[index + 1] !== lf)) {
			return bareLineEnd;
		}
		index += octet === cr ? 1 : 0;
	}
	return null;
}

const bareLineEnd = 'the message has a bare CR or LF: lines must end with CRLF';

function problem(text: string): ReadSource {
	return {ok: false, problem: text};
}

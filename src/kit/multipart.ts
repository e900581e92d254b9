const maxBoundaryLength = 1000;
const lf = 0x0a;

/**
 * Splits `content` at the lines with a boundary (RFC 2046 §5.1.1). The parts are views of `content`, whose lines may
 * end in LF or CRLF; a part keeps its last CR. A boundary that is a prefix of another one is a different boundary.
 *
 * @param max the maximum number of parts to return
 * @param acceptsUnclosed whether a last part without a closing boundary counts
 */
export function splitParts(
	content: Buffer,
	boundary: string,
	{
		max = Number.POSITIVE_INFINITY,
		acceptsUnclosed = true,
	}: {readonly max?: number; readonly acceptsUnclosed?: boolean} = {},
): Buffer[] {
	const parts: Buffer[] = [];
	// Trailing white space is not part of a boundary, neither in the parameter nor in the line.
	const delimiter = `--${boundary.slice(0, maxBoundaryLength).trimEnd()}`;
	let start = -1;
	for (const position of iterateLines(content, delimiter)) {
		const after = position + delimiter.length;
		const kind = kindOf(content, after);
		if (kind === null) {
			continue;
		}
		if (start !== -1) {
			parts.push(content.subarray(start, Math.max(start, position - 1)));
		}
		const end = content.indexOf(lf, after);
		start = kind === 'last' || end === -1 ? -1 : end + 1;
		if (kind === 'last' || parts.length >= max) {
			return parts;
		}
	}
	if (acceptsUnclosed && start !== -1 && start < content.length) {
		parts.push(content.subarray(start));
	}
	return parts;
}

/** Yields the positions of lines that begin with the text. */
function* iterateLines(content: Buffer, text: string): Generator<number> {
	const prefix = Buffer.from(text, 'latin1');
	if (content.subarray(0, prefix.length).equals(prefix)) {
		yield 0;
	}
	const line = Buffer.from(`\n${text}`, 'latin1');
	for (let index = content.indexOf(line); index !== -1; index = content.indexOf(line, index + line.length)) {
		yield index + 1;
	}
}

/** Returns whether the boundary line starts another part or ends the last one, or `null` if it has another boundary. */
function kindOf(content: Buffer, after: number): 'next' | 'last' | null {
	const first = content[after];
	if (first === undefined || first === lf) {
		return 'next';
	}
	if (first !== 0x20 && first !== 0x09 && first !== 0x0d && first !== 0x2d) {
		return null;
	}
	const end = content.indexOf(lf, after);
	const rest = content.toString(
		'latin1',
		after,
		Math.min(end === -1 ? content.length : end, after + maxBoundaryLength),
	);
	return rest.trim() === '' ? 'next' : rest.trim() === '--' ? 'last' : null;
}

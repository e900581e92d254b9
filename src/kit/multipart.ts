const maxBoundaryLength = 1000;
const lf = 0x0a;

/**
 * The parts between the lines of a boundary (RFC 2046 §5.1.1), as views of `content`, which may have lines that end in
 * LF or in CRLF; a part keeps the CR before its end. A boundary that is a prefix of another one is a different
 * boundary.
 *
 * @param most parts that are answered at most
 * @param unclosed whether a part that no boundary ends counts, up to the end of the content
 */
export function splitParts(
	content: Buffer,
	boundary: string,
	{most = Number.POSITIVE_INFINITY, unclosed = true}: {readonly most?: number; readonly unclosed?: boolean} = {},
): Buffer[] {
	const parts: Buffer[] = [];
	// Neither may a boundary end in blanks, nor may those behind it in a line count.
	const delimiter = `--${boundary.slice(0, maxBoundaryLength).trimEnd()}`;
	let start = -1;
	for (const at of linesOf(content, delimiter)) {
		const after = at + delimiter.length;
		const kind = kindOf(content, after);
		if (kind === null) {
			continue;
		}
		if (start !== -1) {
			parts.push(content.subarray(start, Math.max(start, at - 1)));
		}
		const end = content.indexOf(lf, after);
		start = kind === 'last' || end === -1 ? -1 : end + 1;
		if (kind === 'last' || parts.length >= most) {
			return parts;
		}
	}
	if (unclosed && start !== -1 && start < content.length) {
		parts.push(content.subarray(start));
	}
	return parts;
}

/** Where the lines begin that begin with a text. */
function* linesOf(content: Buffer, text: string): Generator<number> {
	const first = Buffer.from(text, 'latin1');
	if (content.subarray(0, first.length).equals(first)) {
		yield 0;
	}
	const line = Buffer.from(`\n${text}`, 'latin1');
	for (let at = content.indexOf(line); at !== -1; at = content.indexOf(line, at + line.length)) {
		yield at + 1;
	}
}

/** What the rest of a line says of the boundary before it; null: it is another boundary. */
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

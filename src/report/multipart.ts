const longestBoundary = 1000;

/**
 * The parts between the lines of a boundary (RFC 2046 §5.1.1), as views of `content`, at most `most`. A boundary that is
 * never closed ends with the content; one that begins like another is another.
 */
export function splitParts(content: Buffer, boundary: string, most: number): Buffer[] {
	const parts: Buffer[] = [];
	const delimiter = Buffer.from(`--${boundary.slice(0, longestBoundary)}`, 'latin1');
	let start = -1;
	for (let at = content.indexOf(delimiter); at !== -1; at = content.indexOf(delimiter, at + delimiter.length)) {
		if (at > 0 && content[at - 1] !== 0x0a) {
			continue;
		}
		const line = content.indexOf(0x0a, at);
		const lineEnd = line === -1 ? content.length : line;
		const after = at + delimiter.length;
		const rest = content.toString('latin1', after, Math.min(lineEnd, after + longestBoundary)).trim();
		if (rest !== '' && rest !== '--') {
			continue;
		}
		if (start !== -1) {
			parts.push(content.subarray(start, Math.max(start, at - 1)));
		}
		start = rest === '--' || line === -1 ? -1 : line + 1;
		if (rest === '--' || parts.length >= most) {
			return parts;
		}
	}
	if (start !== -1 && start < content.length) {
		parts.push(content.subarray(start));
	}
	return parts;
}

const looksAt = 64 * 1024;

/** The boundary that is used where the announced one is missing or another: what stands before a part's header. */
export function guessBoundary(content: Buffer): string | null {
	const text = content.toString('latin1', 0, Math.min(content.length, looksAt));
	return (
		/^--([^\n]{1,200}?)[ \t]*\ncontent-(?:type|transfer-encoding|description|disposition)[ \t]*:/im.exec(text)?.[1] ??
		null
	);
}

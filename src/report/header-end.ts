const lf = 0x0a;

const commonField =
	/^(?:content-[a-z-]+|mime-version|received|return-path|from|to|subject|date|message-id|auto-submitted|delivered-to|x-[\w-]+)[ \t]*:/im;

/**
 * Where the header of a mail or part ends: at the first blank line. Where a line before it is no field and no field follows
 * that line, the blank line is missing and the line begins the body. Only so many octets are looked at.
 */
export function headerEnd(bytes: Buffer, longest: number): number {
	if (bytes[0] === lf) {
		return 0;
	}
	const blank = bytes.indexOf('\n\n');
	const end = blank === -1 ? bytes.length : blank + 1;
	const header = bytes.toString('latin1', 0, Math.min(end, longest));
	const stray = /^(?:--|(?![\t ]|[!-9;-~]{1,200}[ \t]*:)).*$/m.exec(
		header.endsWith('\n') ? header.slice(0, -1) : header,
	);
	if (stray === null) {
		return end;
	}
	const isBody = stray[0].startsWith('--') || !commonField.test(header.slice(stray.index + stray[0].length));
	return isBody ? stray.index : end;
}

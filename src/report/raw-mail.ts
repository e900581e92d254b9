const cr = 0x0d;
const lf = 0x0a;

/** The first mail of bytes with LF as line end: without a `From ` line or blank lines before it, and without a mail behind it. */
export function firstMail(bytes: Buffer): Buffer {
	return withoutNextMail(withoutFromLine(bytes));
}

function withoutFromLine(bytes: Buffer): Buffer {
	let start = 0;
	while (start < 64 && bytes[start] === lf) {
		start++;
	}
	const mail = bytes.subarray(start);
	const isFromLine = /^>?From /.test(mail.subarray(0, 6).toString('latin1'));
	return isFromLine ? mail.subarray(mail.indexOf(lf) + 1) : mail;
}

const fromLine = Buffer.from('\n\nFrom ');
const mostFromLines = 100;

/** Cuts at the `From ` line of another mail behind the first one. */
function withoutNextMail(bytes: Buffer): Buffer {
	let at = bytes.indexOf(fromLine);
	for (let tries = 0; at !== -1 && tries < mostFromLines; tries++) {
		const lines = bytes.toString('latin1', at + 2, at + 600);
		if (/^From [^\n]{3,120}\d\d:\d\d[^\n]{0,30}\n[!-9;-~]{2,60}:[ \t]/.test(lines)) {
			return bytes.subarray(0, at + 1);
		}
		at = bytes.indexOf(fromLine, at + 1);
	}
	return bytes;
}

/**
 * A mail with LF as its only line end: CRLF, CR before CRLF, and CR alone if most lines end in it. A CR within a line
 * stays.
 */
export function withLineFeeds(raw: Buffer): Buffer {
	if (raw.indexOf(cr) === -1) {
		return raw;
	}
	const alone = endsWithCr(raw);
	const bytes = Buffer.allocUnsafe(raw.length);
	let length = 0;
	for (let i = 0; i < raw.length; i++) {
		const byte = raw[i] as number;
		if (byte !== cr) {
			bytes[length++] = byte;
			continue;
		}
		const next = raw[i + 1];
		if (next === lf || (next === cr && raw[i + 2] === lf)) {
			continue;
		}
		bytes[length++] = alone ? lf : cr;
	}
	return bytes.subarray(0, length);
}

function endsWithCr(raw: Buffer): boolean {
	let crs = 0;
	let lfs = 0;
	for (let i = 0; i < raw.length; i++) {
		const byte = raw[i];
		if (byte === lf) {
			lfs++;
		} else if (byte === cr && raw[i + 1] !== lf) {
			crs++;
		}
	}
	return crs > lfs;
}

const commonField =
	/^(?:content-[a-z-]+|mime-version|received|return-path|from|to|subject|date|message-id|auto-submitted|delivered-to|x-[\w-]+)[ \t]*:/im;

/**
 * Where the header of a mail or part ends: at the first blank line. If a line before it is not a field and no field
 * follows, the blank line is missing and that line begins the body. Looks at `longest` octets.
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

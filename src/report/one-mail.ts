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

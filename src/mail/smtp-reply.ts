/** A reply of an SMTP server (RFC 5321 §4.2). */
export type SmtpReply = {
	readonly code: number;
	/** RFC 3463, from the first line's text. */
	readonly enhanced: string | null;
	/** All lines without their codes, joined by a line feed, controls removed, at most 1,024 characters. */
	readonly text: string;
};

const enhancedCode = /^[245]\.\d{1,3}\.\d{1,3}(?=\s|$)/;
const controls = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;
const longestText = 1024;

/** What a host said, made safe to store and to print: controls removed, at most 1,024 characters. */
export function printable(text: string): string {
	return text.replace(controls, ' ').slice(0, longestText).trim();
}

/** Makes a reply from its code and its lines' texts, made safe to store and to print. */
export function smtpReply(code: number, lines: readonly string[]): SmtpReply {
	const text = printable(lines.join('\n'));
	return {code, enhanced: enhancedCode.exec(text)?.[0] ?? null, text};
}

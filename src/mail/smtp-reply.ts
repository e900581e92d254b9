import {unprintable} from '../kit/unprintable.ts';

/** A reply of an SMTP server (RFC 5321 §4.2). */
export type SmtpReply = {
	readonly code: number;
	/** RFC 3463, at the start of the first line, or of another one if it fits the code. */
	readonly enhanced: string | null;
	/** All lines without their codes, joined by a line feed, controls removed, at most 1,024 characters. */
	readonly text: string;
};

const enhancedCode = /^[245]\.\d{1,3}\.\d{1,3}(?=\s|$)/gm;
// A reply of several lines keeps its line feeds.
const unsafe = new RegExp(`(?!\n)[${unprintable}]`, 'gu');
const longestText = 1024;

/** What a host said, made safe to store and to print: unprintable characters removed, at most 1,024 characters. */
export function printable(text: string): string {
	return text.replace(unsafe, ' ').slice(0, longestText).trim();
}

/** Makes a reply from its code and its lines' texts, made safe to store and to print. */
export function smtpReply(code: number, lines: readonly string[]): SmtpReply {
	const text = printable(lines.join('\n'));
	const stated = text.match(enhancedCode) ?? [];
	const fitting = stated.find(one => one[0] === String(code)[0]);
	return {code, enhanced: fitting ?? stated.find(one => text.startsWith(one)) ?? null, text};
}

import {unprintable} from '../kit/unprintable.ts';

const unsafe = new RegExp(`[${unprintable}\\s]+`, 'gu');

const longestReason = 1024;

// What stood between a name and the text, or is drawn above it.
const rest = /^(?:[\s:;.,>)\]]|[-=*_#]{3,})+/;

/** What a host or a person wrote, on one line, safe to store and to print, at most 1,024 characters. */
export function reasonOf(text: string): string {
	// More than is kept, for white space falls together.
	const line = text
		.slice(0, 8 * longestReason)
		.replace(unsafe, ' ')
		.replace(rest, '')
		.trim();
	return line.length <= longestReason
		? line
		: line
				.slice(0, longestReason)
				.replace(/[\ud800-\udbff]$/, '')
				.trimEnd();
}

import {plainText} from './plain-text.ts';

/** Longer replies are distinguished by their beginnings. */
const longest = 300;
const code = /^[245]\d\d$/;
/** Of a reply of several lines. */
const firstOfMany = /^([245]\d\d)-/;
const enhancedCode = /^[245]\.\d{1,3}\.\d{1,3}$/;
const digit = /\d/;
const variable = '…';

/**
 * A reply's words without the recipient: no addresses, numbers, ids or host names with digits, so that equal replies
 * have equal words. Codes at its beginning stay.
 */
export function wordingOf(reply: string): string {
	const words = plainText(reply.slice(0, longest)).replace(firstOfMany, '$1 ').split(' ');
	const first = code.test(words[0] ?? '') ? 1 : 0;
	const codes = enhancedCode.test(words[first] ?? '') ? first + 1 : first;
	return words
		.map((word, index) => (index >= codes && digit.test(word) ? variable : word))
		.filter((word, index, all) => word !== variable || all[index - 1] !== variable)
		.join(' ');
}

import {plainText} from './plain-text.ts';

/** Longer replies are told apart by their beginnings. */
const longest = 300;
const code = /^[245]\d\d$/;
/** Of a reply of several lines. */
const firstOfMany = /^([245]\d\d)-/;
const enhancedCode = /^[245]\.\d{1,3}\.\d{1,3}$/;
const digit = /\d/;
const variable = '…';

/**
 * What a reply says, whomever it is about: without addresses, numbers, ids and names of hosts that have digits, so that
 * replies that say the same have the same words. Codes at its beginning stay.
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

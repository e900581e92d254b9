import {type Address, parseAddress} from '../mail/address.ts';

/**
 * The address of a field that holds one mailbox (RFC 5322 §3.4): `Name <name@example.com>` or the bare address, comments
 * and quoted names among them. Null for anything else, whatever a reader might make of it: lists, groups, routes, two addresses, a
 * backslash outside of quotes.
 */
export function onlyMailbox(value: string): Address | null {
	const plain = withoutQuotes(value);
	const address =
		plain === null ? null : (/^[^<>@,;:\\]*<([^<>\s]*)>\s*$/.exec(plain)?.[1] ?? /^\s*([^<>\s]+)\s*$/.exec(plain)?.[1]);
	const parsed = address ? parseAddress(address, {utf8Local: false}) : null;
	return parsed?.ok ? parsed.address : null;
}

/** A quoted name becomes `"`, which no address may have; a comment a space. Null: one of them has no end. */
function withoutQuotes(value: string): string | null {
	let plain = '';
	let depth = 0;
	let quoted = false;
	for (let index = 0; index < value.length; index++) {
		const character = value[index] as string;
		if (character === '\\' && (quoted || depth > 0)) {
			index++;
		} else if (character === '"' && depth === 0) {
			quoted = !quoted;
			plain += quoted ? '"' : '';
		} else if (quoted) {
		} else if (character === '(') {
			depth++;
		} else if (character === ')' && depth > 0) {
			depth--;
			plain += ' ';
		} else if (depth === 0) {
			plain += character;
		}
	}
	return quoted || depth > 0 ? null : plain;
}

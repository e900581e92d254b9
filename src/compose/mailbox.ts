import {domainToASCII} from 'node:url';
import {phrase} from './encoded-word.ts';
import type {Letter} from './letter.ts';

const bareAddress =
	/^[^\s\u0000-\u0020\u007f-\u00a0\u2028\u2029<>()[\]\\,;:"@]+@[^\s\u0000-\u0020\u007f-\u00a0\u2028\u2029<>()[\]\\,;:"@]+$/;

/** The words of a mailbox (RFC 5322 §3.4): `Name <address>` or the bare address. */
export function mailbox(address: string, name: string | null): string[] {
	const words = phrase(name ?? '');
	const spec = addrSpec(address);
	return words.length > 0 ? [...words, `<${spec}>`] : [spec];
}

/** The words of an address list. */
export function addressList(addresses: readonly string[]): string[] {
	return addresses.map((address, index) => addrSpec(address) + (index < addresses.length - 1 ? ',' : ''));
}

/** Whether a header has an address that ASCII cannot spell, so that the mail needs SMTPUTF8 (RFC 6531, RFC 6532). */
export function needsSmtputf8(letter: Letter): boolean {
	return [letter.from.address, letter.to, ...letter.cc, letter.replyTo ?? ''].some(address =>
		/[^\x00-\x7f]/.test(address.slice(0, Math.max(0, address.lastIndexOf('@')))),
	);
}

// The domain as A-labels; the local part has no ASCII form, so it stays as it is (RFC 6532 §3.2).
function addrSpec(address: string): string {
	if (!bareAddress.test(address)) {
		throw new Error('An address in a header is no bare addr-spec.');
	}

	const at = address.lastIndexOf('@') + 1;
	const domain = address.slice(at);
	const ascii = /^[\x21-\x7e]+$/.test(domain) ? domain : domainToASCII(domain);
	if (ascii === '') {
		throw new Error('The domain of an address in a header has no A-label form.');
	}

	return address.slice(0, at) + ascii;
}

import {findAddresses, sameAddress} from '../addresses.ts';
import {decodeWords} from '../decode.ts';
import {readFields} from '../mime.ts';
import type {BounceText} from './bounce-text.ts';

const fields = ['x-failed-recipients', 'x-actual-recipient', 'original-recipient', 'x-original-to'];

/**
 * The recipient of a bounce whose words name none: from the bounce's own fields, or from the returned mail if that had
 * one recipient, or one in the domain that the words name.
 */
export function returnedRecipient({field, said, senders, returned}: BounceText): string | null {
	const own = fields.flatMap(name => findAddresses(field(name))).filter(({address}) => !isOneOf(senders, address));
	if (own[0] !== undefined) {
		return own[0].address;
	}
	const addresses = recipientsOf(returned);
	const spoken = said.toLowerCase();
	return addresses.length === 1
		? (addresses[0] as string)
		: (addresses.find(address => spoken.includes(domainOf(address))) ?? null);
}

/** For whom a mail that was given back is, by its header. */
export function recipientsOf(returned: string): string[] {
	const text = returned.slice(0, 16_384);
	const fields = readFields(Buffer.from(text.slice(Math.max(0, text.search(/^[\w-]+[ \t]?:/m)))));
	return fields
		.filter(({name}) => name === 'to' || name === 'cc')
		.flatMap(({value}) => findAddresses(decodeWords(value.slice(0, 4096))))
		.map(({address}) => address);
}

/** The domain of an address, in lower case. */
export function domainOf(address: string): string {
	return address.slice(address.lastIndexOf('@') + 1).toLowerCase();
}

function isOneOf(addresses: readonly string[], address: string): boolean {
	return addresses.some(one => sameAddress(one, address));
}

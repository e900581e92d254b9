import {readFields} from '../mime.ts';
import type {BounceText} from './bounce-text.ts';
import {findAddresses, isSame} from './find-addresses.ts';

const fields = ['x-failed-recipients', 'x-actual-recipient', 'original-recipient', 'x-original-to'];

/**
 * The recipient where the words name none: of the bounce's own fields, or of the mail that it gives back, if that was for one, or
 * for one whose domain the words name.
 */
export function returnedRecipient({field, said, senders, returned}: BounceText): string | null {
	const own = fields.flatMap(name => findAddresses(field(name))).filter(({address}) => !isOneOf(senders, address));
	if (own[0] !== undefined) {
		return own[0].address;
	}
	const lines = returned.slice(0, 16_384);
	const back = readFields(Buffer.from(lines.slice(lines.search(/^[\w-]+[ \t]?:/m))));
	const to = back
		.filter(({name}) => name === 'to' || name === 'cc')
		.flatMap(({value}) => findAddresses(value.slice(0, 4096)));
	const addresses = to.map(({address}) => address);
	const domainOf = (address: string) => address.slice(address.lastIndexOf('@') + 1).toLowerCase();
	const spoken = said.toLowerCase();
	return addresses.length === 1
		? (addresses[0] as string)
		: (addresses.find(address => spoken.includes(domainOf(address))) ?? null);
}

function isOneOf(addresses: readonly string[], address: string): boolean {
	return addresses.some(one => isSame(one, address));
}

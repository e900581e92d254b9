import {type Address, parseAddress} from '../../src/mail/address.ts';

export function address(text: string): Address {
	const parsed = parseAddress(text, {allowsUtf8Local: false});
	if (!parsed.ok) {
		throw new Error(text);
	}
	return parsed.address;
}

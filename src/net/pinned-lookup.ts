import {isIP, type LookupFunction} from 'node:net';

/** A look-up that answers these addresses, whatever it is asked: what was checked is what is connected to. */
export function pinnedLookup(addresses: readonly string[]): LookupFunction {
	const all = addresses.map(address => ({address, family: isIP(address)}));
	return (_host, options, callback) => {
		const [first] = all;
		if (options.all) {
			callback(null, all);
		} else {
			callback(null, first?.address ?? '', first?.family);
		}
	};
}

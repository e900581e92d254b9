const [percent, plus, space, ampersand, equals] = [0x25, 0x2b, 0x20, 0x26, 0x3d];

/**
 * Decodes percent-encoding (URL Standard, "percent-decode"). An incomplete escape remains as it is, and octets that are
 * not UTF-8 become U+FFFD. `decodeURIComponent` throws for both, and exceptions are too expensive for untrusted text.
 */
export function percentDecode(text: string): string {
	return text.includes('%') ? decodeOctets(Buffer.from(text)) : text;
}

/**
 * Parses the first `maxFields` fields of an application/x-www-form-urlencoded body or query, in order. Broken escapes
 * are treated as in `percentDecode`. URLSearchParams throws and catches an exception in Node for each of them, and
 * takes a third of a second for a megabyte of `+`.
 */
export function parseUrlencoded(body: Uint8Array, maxFields: number): Array<[name: string, value: string]> {
	const fields: Array<[string, string]> = [];
	const octets = Buffer.from(body);
	let start = 0;
	let separator = -1;
	for (let index = 0; index <= octets.length && fields.length < maxFields; index++) {
		const octet = octets[index] ?? ampersand;
		if (octet === plus) {
			octets[index] = space;
		} else if (octet === equals && separator === -1) {
			separator = index;
		} else if (octet === ampersand) {
			if (index > start) {
				const nameEnd = separator === -1 ? index : separator;
				const valueStart = Math.min(nameEnd + 1, index);
				fields.push([
					decodeOctets(octets.subarray(start, nameEnd)),
					decodeOctets(octets.subarray(valueStart, index)),
				]);
			}
			start = index + 1;
			separator = -1;
		}
	}
	return fields;
}

/** Decodes in place, since the result is never longer than the input. */
function decodeOctets(octets: Buffer): string {
	let length = 0;
	for (let index = 0; index < octets.length; index++, length++) {
		const high = octets[index] === percent ? hexDigit(octets[index + 1]) : -1;
		const low = high === -1 ? -1 : hexDigit(octets[index + 2]);
		if (low === -1) {
			octets[length] = octets[index] as number;
		} else {
			octets[length] = high * 16 + low;
			index += 2;
		}
	}
	return octets.toString('utf8', 0, length);
}

/** Returns the value of a hexadecimal digit, or -1. */
function hexDigit(octet: number | undefined): number {
	if (octet === undefined) {
		return -1;
	}
	if (octet >= 0x30 && octet <= 0x39) {
		return octet - 0x30;
	}
	// Setting this bit makes a letter lower case.
	const letter = octet | 0x20;
	return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

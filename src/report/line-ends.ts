const cr = 0x0d;
const lf = 0x0a;

/**
 * A mail with LF as its only line end: CRLF, CR before CRLF, and CR alone where more lines end so than otherwise. A CR that
 * stands in a line stays.
 */
export function withLineFeeds(raw: Buffer): Buffer {
	if (raw.indexOf(cr) === -1) {
		return raw;
	}
	const alone = endsWithCr(raw);
	const bytes = Buffer.allocUnsafe(raw.length);
	let length = 0;
	for (let i = 0; i < raw.length; i++) {
		const byte = raw[i] as number;
		if (byte !== cr) {
			bytes[length++] = byte;
			continue;
		}
		const next = raw[i + 1];
		if (next === lf || (next === cr && raw[i + 2] === lf)) {
			continue;
		}
		bytes[length++] = alone ? lf : cr;
	}
	return bytes.subarray(0, length);
}

function endsWithCr(raw: Buffer): boolean {
	let crs = 0;
	let lfs = 0;
	for (let i = 0; i < raw.length; i++) {
		const byte = raw[i];
		if (byte === lf) {
			lfs++;
		} else if (byte === cr && raw[i + 1] !== lf) {
			crs++;
		}
	}
	return crs > lfs;
}

/** Undoes a transfer encoding (RFC 2045 §6); an unknown one is taken as none. */
export function decodeBody(body: Buffer, encoding: string): Buffer {
	switch (encoding.trim().toLowerCase()) {
		case 'base64':
			return Buffer.from(body.toString('latin1'), 'base64');
		case 'quoted-printable':
			return decodeQuotedPrintable(body.toString('latin1'));
		default:
			return body;
	}
}

/** Text in a charset; where that is unknown, UTF-8, and Latin-1 where it is not that. */
export function decodeText(bytes: Buffer, charset: string | undefined): string {
	try {
		return new TextDecoder(charset === undefined || /^us-ascii$/i.test(charset) ? 'utf-8' : charset).decode(bytes);
	} catch {
		return bytes.toString('utf8').includes('\ufffd') ? bytes.toString('latin1') : bytes.toString('utf8');
	}
}

/** Encoded words of a header field (RFC 2047) as text. */
export function decodeWords(value: string): string {
	return value
		.replace(/(=\?[^?\s]{1,64}\?[bq]\?[^?]{0,1024}\?=)\s+(?==\?)/gi, '$1')
		.replace(/=\?([^?\s]{1,64})\?([bq])\?([^?]{0,1024})\?=/gi, (_, charset: string, kind: string, text: string) =>
			decodeText(
				kind.toLowerCase() === 'b' ? Buffer.from(text, 'base64') : decodeQuotedPrintable(text.replaceAll('_', ' ')),
				charset.split('*')[0],
			),
		);
}

function decodeQuotedPrintable(text: string): Buffer {
	const joined = text.replace(/=[ \t]*\n/g, '');
	return Buffer.from(
		joined.replace(/=([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
		'latin1',
	);
}

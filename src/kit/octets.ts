/** The same memory as a Buffer: what another thread or a store hands over is a plain Uint8Array. */
export function bufferOf({buffer, byteOffset, byteLength}: Uint8Array): Buffer {
	return Buffer.from(buffer, byteOffset, byteLength);
}

/** UTF-8 without the byte order mark that editors put before it. */
export function utf8Text(bytes: Uint8Array): string {
	return new TextDecoder().decode(bytes);
}

let last = 0;

/** An address of 127/8 that no other test uses, so that several servers can share a port number. */
export function loopbackAddress(): string {
	last += 1;
	return `127.${1 + ((process.pid >> 8) % 254)}.${process.pid & 255}.${last}`;
}

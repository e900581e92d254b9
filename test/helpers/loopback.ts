let last = 0;

/** An address of 127/8 that no other test uses, so that several servers can share a port number. */
export function loopbackAddress(): string {
	last += 1;
	const number = (1 + (process.pid % 4094)) * 4096 + last;
	return `127.${number >> 16}.${(number >> 8) & 255}.${number & 255}`;
}

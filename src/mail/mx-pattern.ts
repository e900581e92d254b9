/**
 * Whether a pattern of an MTA-STS policy names a host (RFC 8461 §4.1): `*` stands for exactly one label, the left-most.
 * Both in lower-case A-labels without the last dot.
 */
export function namesHost(pattern: string, host: string): boolean {
	return pattern.startsWith('*.')
		? host.includes('.') && host.slice(host.indexOf('.')) === pattern.slice(1)
		: pattern === host;
}

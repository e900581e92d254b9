const operators: ReadonlySet<string> = new Set(['postmaster', 'abuse']);

/** Whether people read the mail of an address (RFC 5321 §4.5.1, RFC 2142); `postmaster` needs no domain. */
export function isOperatorAddress(address: string): boolean {
	return operators.has((address.split('@')[0] as string).toLowerCase());
}

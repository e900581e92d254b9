import type {IncomingMessage} from 'node:http';

// What decides who makes a request, where it ends or what it does: of two such headers one program on the way may believe
// the first and another the second. Node keeps the first of some, and joins others with a comma.
const singleHeaders: ReadonlySet<string> = new Set([
	'authorization',
	'content-encoding',
	'content-length',
	'content-type',
	'expect',
	'host',
	'idempotency-key',
	'transfer-encoding',
]);

/** The name of a header that came more than once and may not (RFC 9110 §5.3), null: no such header. */
export function repeatedHeader({headers, rawHeaders}: IncomingMessage): string | null {
	// The usual path: each line has a name of its own.
	if (Object.keys(headers).length * 2 === rawHeaders.length) {
		return null;
	}
	const seen = new Set<string>();
	for (let index = 0; index < rawHeaders.length; index += 2) {
		const name = rawHeaders[index]?.toLowerCase() as string;
		if (seen.has(name) && singleHeaders.has(name)) {
			return name;
		}
		seen.add(name);
	}
	return null;
}

import {createHash} from 'node:crypto';
import {isIP} from 'node:net';
import type {MxRecord} from '../net/dns.ts';

const bare = (name: string): string => name.toLowerCase().replace(/\.$/, '');

/** RFC 7505: the domain takes no mail. */
export function isNullMx(records: readonly MxRecord[]): boolean {
	return records.every(({exchange}) => bare(exchange) === '');
}

// What else stands there would go into commands, logs and certificates' names.
const hostNames = /^[a-z0-9_.-]{1,253}$/;

/** The hosts of a domain in the order in which a copy tries them; those whose names are none are left out. */
export function mailHosts(records: readonly MxRecord[], recipientId: string): MxRecord[] {
	return inOrder(usable(records), recipientId);
}

/** A null MX beside others means nothing, and an address is no name. */
function usable(records: readonly MxRecord[]): MxRecord[] {
	return records
		.map(({exchange, priority}) => ({exchange: bare(exchange), priority}))
		.filter(({exchange}) => hostNames.test(exchange) && isIP(exchange) === 0);
}

/**
 * RFC 5321 §5.1: lowest preference first, equal ones in random order to spread the load. Each copy draws its own lots and
 * keeps them: a host that knows a copy from its first try (greylisting) is asked first again.
 */
function inOrder(records: readonly MxRecord[], recipientId: string): MxRecord[] {
	const lots = new Map<string, number>();
	// Drawn only where preferences are equal: most domains name one host, or hosts of different ones.
	const lotOf = ({exchange}: MxRecord): number => {
		const lot = lots.get(exchange) ?? createHash('sha1').update(`${recipientId} ${exchange}`).digest().readUInt32BE();
		lots.set(exchange, lot);
		return lot;
	};
	return records.toSorted((a, b) => a.priority - b.priority || lotOf(a) - lotOf(b));
}

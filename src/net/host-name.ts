import {isIPv4} from 'node:net';
import {domainToASCII} from 'node:url';

const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

// The URL standard's mapping would drop line ends and undo percent-encoding; what is no letter or digit is refused first.
const letters = /^[\p{L}\p{M}\p{N}._-]+$/u;

/**
 * The name as lower-case A-labels, or undefined when it is no host name or is an address. One label is enough, and `_` may
 * stand in it: names of containers and of /etc/hosts are looked up too.
 */
export function hostName(text: string): string | undefined {
	const name = letters.test(text) ? domainToASCII(text) : '';
	const labels = name.split('.');
	const isName = labels.every(part => label.test(part)) && !/^\d+$/.test(labels.at(-1) ?? '');
	return isName && name.length <= 253 && !isIPv4(name) ? name : undefined;
}

/** Whether a name is another one or under it; both in A-labels. */
export function isUnder(name: string, parent: string): boolean {
	return name === parent || name.endsWith(`.${parent}`);
}

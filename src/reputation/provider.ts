import {isIP} from 'node:net';

/** Labels under which countries register names of others: `co.uk`, `com.au`, `ne.jp`. */
const registries: ReadonlySet<string> = new Set([
	'ac',
	'co',
	'com',
	'edu',
	'go',
	'gov',
	'gr',
	'ne',
	'net',
	'or',
	'org',
]);

/** Whose host this is, by the end of its name: `aspmx.l.google.com` is google.com's. Good enough to count by. */
export function providerOf(host: string): string {
	const labels = host.toLowerCase().replace(/\.$/, '').split('.');
	const isCountry = labels.at(-1)?.length === 2 && registries.has(labels.at(-2) ?? '');
	return isIP(host) !== 0 ? host : labels.slice(isCountry ? -3 : -2).join('.');
}

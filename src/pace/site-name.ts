import {createHash} from 'node:crypto';
import {isIP} from 'node:net';
import type {Source} from '../mail/route.ts';
import type {DnsAnswer, MxRecord} from '../net/dns.ts';
import type {Relay} from '../net/relay-url.ts';

/** Names longer than this are cut and told apart by a hash: a domain may name twenty hosts of 250 characters. */
const longestName = 150;
/** Nothing is sent to what else stands there, and it could be made to look like the name of another site. */
const hostNames = /^[a-z0-9_.-]{1,253}$/;

/**
 * The mail hosts of a domain in order of preference (equal ones by name), as DNS named them; the domain itself where it
 * has none, or where DNS said nothing of use.
 */
export function mxHosts(domain: string, answer: DnsAnswer<MxRecord>): readonly string[] {
	const records = answer.kind === 'found' ? answer.records : [];
	const hosts = records
		.map(({exchange, priority}) => ({host: exchange.toLowerCase().replace(/\.$/, ''), priority}))
		.filter(({host}) => hostNames.test(host) && isIP(host) === 0)
		.sort((a, b) => a.priority - b.priority || (a.host < b.host ? -1 : 1))
		.map(({host}) => host);
	return hosts.length > 0 ? [...new Set(hosts)] : [domain];
}

/**
 * One name for a set of hosts, whatever their order: domains with the same hosts have one site, and share its pace. What
 * the hosts have in common is said once: `(alt1|alt2)?.aspmx.l.google.com` are that host and two under it.
 */
export function hostsName(hosts: readonly string[]): string {
	const sorted = [...new Set(hosts)].sort();
	const common = sorted.reduce(commonEnd);
	if (sorted.length === 1 || common.split('.').length < 2) {
		return bounded(sorted.join('+'));
	}

	const fronts = sorted.map(host => host.slice(0, Math.max(0, host.length - common.length - 1)));
	const bare = fronts.includes('') ? '?' : '';
	return bounded(`(${fronts.filter(front => front !== '').join('|')})${bare}.${common}`);
}

/** The name of the site that these smarthosts are, without a password. */
export function smarthostName(relays: readonly Relay[]): string {
	const names = relays.map(({host, port, user}) => `${user === null ? '' : `${user}@`}${host}:${port}`);
	return `smarthost ${bounded(names.join('+'))}`;
}

/** What is sent from another address has a pace of its own. */
export function fromSources(name: string, sources: readonly Source[]): string {
	return sources.length === 0 ? name : `${name} from ${sources.map(({address}) => address).join('+')}`;
}

/** The labels that both names end in. */
function commonEnd(a: string, b: string): string {
	const left = a.split('.');
	const right = b.split('.');
	let same = 0;
	while (same < Math.min(left.length, right.length) && left.at(-1 - same) === right.at(-1 - same)) {
		same++;
	}

	return same === 0 ? '' : left.slice(-same).join('.');
}

function bounded(name: string): string {
	const hash = () => createHash('sha256').update(name).digest('hex').slice(0, 12);
	return name.length <= longestName ? name : `${name.slice(0, longestName)}…${hash()}`;
}

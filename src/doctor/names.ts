import type {DnsAnswer, Resolver} from '../net/dns.ts';
import {reverseName} from '../net/reverse-name.ts';
import type {OwnAddress} from './addresses.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

const recordsOf = <T>(answer: DnsAnswer<T>): readonly T[] => (answer.kind === 'found' ? answer.records : []);
const bare = (name: string): string => name.toLowerCase().replace(/\.$/, '');

/** The addresses of a name, both families. */
export async function addressesOf(resolver: Resolver, name: string): Promise<string[]> {
	const answers = await Promise.all([resolver.a(name, true), resolver.aaaa(name, true)]);
	return answers.flatMap(recordsOf);
}

/** Whether the EHLO name is a name that DNS knows (RFC 5321 §4.1.1.1). */
export function hostnameCheck(hostname: string, resolver: Resolver): Check {
	return {
		name: 'hostname',
		why: 'Receivers look the EHLO name up; a name that DNS does not know makes mail look like a bot’s.',
		async look() {
			if (!hostname.includes('.')) {
				return [fail(`${hostname} is no full name`, 'set MAILCTL_HOSTNAME to a name such as mail.example.com')];
			}
			const addresses = await addressesOf(resolver, hostname);
			return [
				addresses.length > 0
					? ok(`${hostname} is ${addresses.join(', ')}`)
					: fail(`${hostname} has no address in DNS`, `publish ${hostname} A and AAAA with this machine’s addresses`),
			];
		},
	};
}

/** Whether each address has a name that leads back to it, and is the EHLO name. */
export function reverseDnsCheck(addresses: readonly OwnAddress[], resolver: Resolver): Check {
	return {
		name: 'reverse-dns',
		why: 'Gmail, Outlook and others refuse mail from an address whose name (PTR) does not lead back to it.',
		async look() {
			if (addresses.length === 0) {
				const fix = 'set MAILCTL_SOURCE_ADDRESSES, or run this on the machine that sends';
				return [warn('the public address of this machine is not known', fix)];
			}
			return await Promise.all(addresses.map(one => reverseDns(one, resolver)));
		},
	};
}

async function reverseDns({address, hostname}: OwnAddress, resolver: Resolver): Promise<Found> {
	const mend = `ask the provider of the address to set its reverse DNS (PTR) to ${hostname}`;
	const answer = await resolver.ptr(reverseName(address), true);
	if (answer.kind === 'failed') {
		return warn(`the name of ${address} could not be looked up (${answer.code})`, 'try again');
	}
	const names = recordsOf(answer).map(bare);
	if (names.length === 0) {
		return fail(`${address} has no name (PTR)`, mend);
	}
	const forward = await Promise.all(
		names.map(async name => ((await addressesOf(resolver, name)).includes(address) ? name : null)),
	);
	const confirmed = forward.filter(name => name !== null);
	if (confirmed.length === 0) {
		return fail(`${address} is called ${names.join(', ')}, which does not lead back to it`, mend);
	}
	return confirmed.includes(hostname)
		? ok(`${address} is ${hostname}, both ways`)
		: warn(
				`${address} is ${confirmed.join(', ')}, EHLO says ${hostname}`,
				`${mend}, or set MAILCTL_HOSTNAME to its name`,
			);
}

/** Whether the EHLO name has an SPF record: it is what is checked for mail with an empty sender (RFC 7208 §2.4). */
export function ehloSpfCheck(hostname: string, resolver: Resolver): Check {
	return {
		name: 'spf-ehlo',
		why: 'Some receivers check the SPF record of the EHLO name too.',
		async look() {
			const answer = await resolver.txt(hostname, true);
			const [record] = recordsOf(answer).filter(text => /^v=spf1(?: |$)/i.test(text));
			return [
				record === undefined
					? warn(`${hostname} has no SPF record`, `publish ${hostname} TXT "v=spf1 a -all"`)
					: ok(`${hostname}: ${record}`),
			];
		},
	};
}

import {loadBlocklists} from '../config/blocklists-file.ts';
import type {Settings} from '../config/settings.ts';
import {askBlocklist, type Blocklist, delistLink, doesList, type Listing} from '../net/blocklist.ts';
import type {Resolver} from '../net/dns.ts';
import {isPublicAddress} from '../net/ip-address.ts';
import {listVerifiedDomains} from '../resources/domains/store.ts';
import {type Check, type CheckResult, fail, ok, warn} from './finding.ts';
import type {OpenedStore} from './machine.ts';
import {publicInterfaceAddresses} from './outbound.ts';

/**
 * Returns the public addresses that this machine sends from; none if a relay delivers its mail, because receivers then
 * see the relay's addresses.
 */
export function sendingAddresses(
	{delivery, sourceAddresses}: Pick<Settings, 'delivery' | 'sourceAddresses'>,
	interfaceAddresses: readonly string[] = publicInterfaceAddresses(),
): string[] {
	const configured = sourceAddresses.map(({ip}) => ip);
	const addresses = configured.length > 0 ? configured : interfaceAddresses;
	return delivery === 'mx' ? addresses.filter(isPublicAddress) : [];
}

type BlocklistInput = {
	readonly settings: Settings;
	readonly interfaceAddresses: readonly string[];
	/** Holds the verified domains. */
	readonly store: Pick<OpenedStore, 'store'>;
	readonly resolver: Resolver;
};

/** Checks now whether a blocklist lists an address or a domain that mail is sent from (RFC 5782). */
export function blocklistCheck({settings, interfaceAddresses, store, resolver}: BlocklistInput): Check {
	return {
		name: 'blocklists',
		why: 'Receivers that use a blocklist refuse all mail from an address or a domain on it.',
		async run() {
			let lists: readonly Blocklist[];
			try {
				lists = loadBlocklists(settings);
			} catch (error) {
				return [fail((error as Error).message, 'fix the file')];
			}
			const domains = store.store === null ? [] : await listVerifiedDomains(store.store.reader);
			const findings: CheckResult[] = [];
			for (const source of [...sendingAddresses(settings, interfaceAddresses), ...domains]) {
				const responses = lists
					.filter(list => doesList(list, source))
					.map(async list => ({...(await askBlocklist(list, source, resolver)), list}));
				findings.push(...toResults(source, await Promise.all(responses)));
			}
			return findings.length > 0 ? findings : [ok('nothing to check: no public address and no verified domain')];
		},
	};
}

function toResults(source: string, responses: ReadonlyArray<Listing & {readonly list: Blocklist}>): CheckResult[] {
	const listed = responses.filter(({state}) => state === 'listed');
	const inconclusive = responses.filter(({state}) => state === 'refused' || state === 'unknown');
	const failureText = inconclusive.map(({list, reason}) => `; no result from ${list.zone}: ${reason}`).join('');
	const warnings = listed.map(({list, answer, reason}) =>
		warn(
			`${source} is on ${list.zone} (${answer})${reason === null ? '' : `: ${reason}`}`,
			`resolve the cause, then request removal: ${delistLink(list, source)}`,
		),
	);
	const respondedCount = responses.length - inconclusive.length;
	if (respondedCount > 0) {
		return [
			...warnings,
			ok(`${source} is on ${listed.length} of ${respondedCount} blocklists that responded${failureText}`),
		];
	}
	const fix = 'set MAILCTL_DNS_SERVERS to your own resolver';
	return failureText === '' ? [] : [warn(`no blocklist responded for ${source}${failureText}`, fix)];
}

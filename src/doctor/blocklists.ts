import {loadBlocklists} from '../config/blocklists-file.ts';
import type {Settings} from '../config/settings.ts';
import {askBlocklist, type Blocklist, delistLink, doesList, type Listing} from '../net/blocklist.ts';
import type {Resolver} from '../net/dns.ts';
import {isPublicAddress} from '../net/ip-address.ts';
import {listVerifiedDomains} from '../store/domains.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';
import type {OpenedStore} from './machine.ts';
import {publicInterfaceAddresses} from './outbound.ts';

/**
 * The public addresses that mail leaves from, as far as this machine knows them. Behind a smarthost they are the
 * smarthost's.
 */
export function sendingAddresses(
	{delivery, sourceAddresses}: Pick<Settings, 'delivery' | 'sourceAddresses'>,
	interfaceAddresses: readonly string[] = publicInterfaceAddresses(),
): string[] {
	const set = sourceAddresses.map(({ip}) => ip);
	return delivery === 'mx' ? (set.length > 0 ? set : interfaceAddresses).filter(isPublicAddress) : [];
}

type BlocklistInput = {
	readonly settings: Settings;
	readonly interfaceAddresses: readonly string[];
	/** Has the verified domains. */
	readonly store: Pick<OpenedStore, 'store'>;
	readonly resolver: Resolver;
};

/** Asks blocklists now whether they name an address or a domain that mail comes from (RFC 5782). */
export function blocklistCheck({settings, interfaceAddresses, store, resolver}: BlocklistInput): Check {
	return {
		name: 'blocklists',
		why: 'Receivers that ask a blocklist refuse all mail from an address or a domain that is on it.',
		async look() {
			let lists: readonly Blocklist[];
			try {
				lists = loadBlocklists(settings);
			} catch (error) {
				return [fail((error as Error).message, 'correct the file')];
			}
			const domains = store.store === null ? [] : await listVerifiedDomains(store.store.reader);
			const found: Found[] = [];
			for (const source of [...sendingAddresses(settings, interfaceAddresses), ...domains]) {
				const heard = lists
					.filter(list => doesList(list, source))
					.map(async list => ({...(await askBlocklist(list, source, resolver)), list}));
				found.push(...judged(source, await Promise.all(heard)));
			}
			return found.length > 0 ? found : [ok('nothing to ask for: no public address, no verified domain')];
		},
	};
}

function judged(source: string, heard: ReadonlyArray<Listing & {readonly list: Blocklist}>): Found[] {
	const listed = heard.filter(({state}) => state === 'listed');
	const doubts = heard.filter(({state}) => state === 'refused' || state === 'unknown');
	const doubt = doubts.map(({list, reason}) => `; ${list.zone} is not known: ${reason}`).join('');
	const warnings = listed.map(({list, answer, reason}) =>
		warn(
			`${source} is on ${list.zone} (${answer})${reason === null ? '' : `: ${reason}`}`,
			`end what caused it, then ask for removal: ${delistLink(list, source)}`,
		),
	);
	const answered = heard.length - doubts.length;
	if (answered > 0) {
		return [...warnings, ok(`${source} is on ${listed.length} of ${answered} blocklists that answer${doubt}`)];
	}
	const fix = 'set MAILCTL_DNS_SERVERS to a resolver of your own';
	return doubt === '' ? [] : [warn(`no blocklist answers for ${source}${doubt}`, fix)];
}

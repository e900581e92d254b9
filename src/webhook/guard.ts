import {BlockList, isIP} from 'node:net';
import {LRUCache} from 'lru-cache';
import {hostName} from '../net/host-name.ts';
import {isPublicAddress} from '../net/public-address.ts';
import {isWebhookPort} from './ports.ts';

/** Where webhooks may go: rules for URLs when an endpoint is registered, and for addresses at each attempt. */
export type Guard = {
	/** What is wrong with an endpoint's URL (`must …`), null: nothing. A name's addresses are not looked up here. */
	readonly urlFault: (url: string) => string | null;
	/** Whether a connection to this address may be made. */
	readonly allows: (address: string) => boolean;
};

const localNames = ['localhost', 'local', 'internal', 'home.arpa'];
/** Each attempt asks, and a BlockList takes microseconds. */
const mostJudged = 1000;
// The URL standard drops some of them in silence: what is stored would not be what is called.
const invisible = /[\s\p{Cc}]/u;

/** `allowCidrs`: non-public ranges that may be reached all the same (MAILCTL_WEBHOOK_ALLOW_CIDRS). Names stay refused. */
export function createGuard(allowCidrs: readonly string[]): Guard {
	const allowed = new BlockList();
	for (const cidr of allowCidrs) {
		const [network = '', length] = cidr.split('/');
		allowed.addSubnet(network, Number(length), familyOf(network));
	}
	const judged = new LRUCache<string, boolean>({max: mostJudged});

	function allows(address: string): boolean {
		const known = judged.get(address);
		const good =
			known ?? (isPublicAddress(address) || (isIP(address) !== 0 && allowed.check(address, familyOf(address))));
		judged.set(address, good);
		return good;
	}

	return {
		allows,
		urlFault(text) {
			const url = invisible.test(text) || !URL.canParse(text) ? null : new URL(text);
			if (url === null) {
				return 'must be a URL such as https://shop.example/hooks';
			}
			if (url.protocol !== 'https:') {
				return 'must be an https URL';
			}
			if (url.username !== '' || url.password !== '') {
				return 'must have no user name and no password';
			}
			if (!isWebhookPort(portOf(url))) {
				return `must not name port ${url.port}: use 80, 443 or one above 1023 where no database listens by default`;
			}
			return hostFault(hostOf(url), allows);
		},
	};
}

/** The host of a URL as it is looked up and verified: no brackets, no dot at the end. */
export function hostOf({hostname}: URL): string {
	return hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

/** The port of an https URL. */
export function portOf({port}: URL): number {
	return port === '' ? 443 : Number(port);
}

// The URL standard has made every odd spelling of an IPv4 address (decimal, octal, hex, full-width) the usual one.
function hostFault(host: string, allows: (address: string) => boolean): string | null {
	if (isIP(host) !== 0) {
		return allows(host) ? null : 'must not name a private, loopback or reserved address';
	}
	if (localNames.some(name => host === name || host.endsWith(`.${name}`))) {
		return 'must not name a local host';
	}
	return hostName(host)?.includes('.') ? null : 'must have a full host name such as shop.example';
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
	return isIP(address) === 4 ? 'ipv4' : 'ipv6';
}

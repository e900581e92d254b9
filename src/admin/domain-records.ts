import {dkimRecordValue} from '../compose/dkim-key.ts';
import type {DkimKey} from '../store/dkim-keys.ts';
import type {Domain} from '../store/domains.ts';

/** A DNS record to publish (decisions.md, Signing and names). */
export type DomainRecord = {
	readonly type: 'TXT' | 'MX' | 'CNAME';
	readonly name: string;
	/** Whole, as most DNS panels take it; a zone file splits a TXT into strings of at most 255 octets. */
	readonly value: string;
	readonly purpose: 'ownership' | 'dkim' | 'return_path' | 'spf' | 'dmarc';
	/** Without it mail from the domain fails checks, or the domain cannot be verified. */
	readonly required: boolean;
	/** What DNS answered at the last check. */
	readonly found: readonly string[];
};

export type RecordsInput = {
	readonly domain: Domain;
	readonly keys: readonly DkimKey[];
	/** The host that takes bounces: MAILCTL_RETURN_PATH_DOMAIN or what stands for it. */
	readonly bounceHost: string;
	/** Addresses that mail leaves from (MAILCTL_SOURCE_ADDRESSES); none: those of the bounce host. */
	readonly sourceAddresses: readonly string[];
};

/**
 * Ownership or DKIM is what verifies the domain. The return path has a host of its own below the domain, so its MX and
 * SPF touch neither the domain's mail nor its SPF record (RFC 7208 §4.6.4: ten look-ups). DMARC is only proposed.
 */
export function domainRecords(input: RecordsInput): DomainRecord[] {
	const {domain, keys, bounceHost} = input;
	const returnPath = domain.return_path_domain ?? `bounce.${domain.name}`;
	const record = (
		purpose: DomainRecord['purpose'],
		type: DomainRecord['type'],
		name: string,
		value: string,
		required: boolean,
	): DomainRecord => ({type, name, value, purpose, required, found: []});
	return [
		record('ownership', 'TXT', `_mailctl.${domain.name}`, `mailctl-verification=${domain.ownership_token}`, true),
		...keys.map(({selector, algorithm, public_key: publicKey}) =>
			// Gmail and Outlook read RSA only; the second signature helps where it is understood.
			record(
				'dkim',
				'TXT',
				`${selector}._domainkey.${domain.name}`,
				dkimRecordValue(publicKey),
				algorithm === 'rsa-sha256',
			),
		),
		record('return_path', 'MX', returnPath, `10 ${bounceHost}`, false),
		record('spf', 'TXT', returnPath, spf(input), false),
		record('dmarc', 'TXT', `_dmarc.${domain.name}`, 'v=DMARC1; p=none', false),
	];
}

function spf({bounceHost, sourceAddresses}: RecordsInput): string {
	const sources = sourceAddresses.map(address => `${address.includes(':') ? 'ip6' : 'ip4'}:${address}`);
	return `v=spf1 ${(sources.length > 0 ? sources : [`a:${bounceHost}`]).join(' ')} -all`;
}

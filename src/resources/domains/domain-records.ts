import {isIP} from 'node:net';
import type {Knex} from 'knex';
import {dkimRecordValue} from '../../compose/dkim.ts';
import {publicHost} from '../../config/derive.ts';
import {storeTime} from '../../kit/time.ts';
import {reportLocals} from '../../mail/aggregate.ts';
import {type OwnPolicy, readOwnPolicy} from './mta-sts-policy.ts';
import {isThisMachine, smarthostSpf, unknownInclude} from './spf.ts';
import {type DkimKey, type Domain, keyState} from './store.ts';

export const recordPurposes = [
	...(['ownership', 'dkim', 'return_path', 'spf', 'dmarc', 'links', 'mta_sts', 'tls_report'] as const),
] as const;
export type RecordPurpose = (typeof recordPurposes)[number];

/** A DNS record to publish (docs/guide/domains.md). */
export type DomainRecord = {
	readonly type: 'TXT' | 'MX' | 'CNAME';
	readonly name: string;
	/** The whole value, as most DNS panels expect it. A zone file splits a TXT into strings of at most 255 octets. */
	readonly value: string;
	readonly purpose: RecordPurpose;
	/** Whether mail from the domain would fail checks, or the domain could not be verified, without the record. */
	readonly required: boolean;
	/** The records that DNS returned last. */
	readonly found: readonly string[];
	/** The key that a DKIM record publishes. */
	readonly key: RecordKey | null;
	/** Names whose MX hosts are equally correct as the target of an MX record. */
	readonly alike: readonly string[];
	/** What to know before publishing it, as a clause for people. */
	readonly note: string | null;
	/** `false` if the value needs a name of this installation that is not configured. `note` says what to set. */
	readonly ready: boolean;
};

export type RecordKey = {
	readonly id: string;
	readonly algorithm: DkimKey['algorithm'];
	/**
	 * `pending` if a rotation created the key and its record is not published yet. `retired` if it no longer signs, but
	 * messages that it signed are still in transit.
	 */
	readonly state: 'active' | 'pending' | 'retired';
	/** Until when the record of a retired key must be published. */
	readonly keep_until: string | null;
};

/** The names and addresses that this installation sends with, according to its settings. */
export type SendingNames = {
	/** The name of this machine in DNS: MAILCTL_HOSTNAME. */
	readonly host: string;
	/** The host that receives bounces. It must have an address, because MX records refer to it (RFC 5321 §5.1). */
	readonly bounceHost: string;
	/**
	 * The domain of the return paths (MAILCTL_RETURN_PATH_DOMAIN). The hosts in its MX receive bounces, and may be
	 * other machines, such as those of a mailbox provider.
	 */
	readonly returnPathDomain: string;
	/** The source addresses of outgoing mail (MAILCTL_SOURCE_ADDRESSES). Empty for those of this machine. */
	readonly sourceAddresses: readonly string[];
	/** The smarthosts that mail leaves through, if any. Their sending addresses are unknown. */
	readonly smarthosts: readonly string[];
	/** Whether this installation receives mail to return path hosts, by a listener or a mailbox. */
	readonly receives: boolean;
	/** The host of MAILCTL_PUBLIC_URL. */
	readonly publicHost: string;
	/** Reads the installation's own MTA-STS policy. Returns `null` if there is none. */
	readonly policy: (reader: Knex, now: number) => Promise<OwnPolicy | null>;
};

type SendingSettings = {
	readonly hostname: string;
	readonly returnPathDomain: string;
	readonly inboundListen: object | null;
	readonly bounceMailbox: object | null;
	readonly sourceAddresses: ReadonlyArray<{readonly ip: string}>;
	readonly delivery: 'capture' | 'mx' | 'relay';
	readonly relays: ReadonlyArray<{readonly host: string}>;
} & Parameters<typeof publicHost>[0] &
	Parameters<typeof readOwnPolicy>[0];

/** Returns the names of this installation, which no domain may use for its links. */
export const ownHosts = (settings: SendingSettings): string[] =>
	[settings.hostname, settings.returnPathDomain, publicHost(settings)].map(host => host.toLowerCase());

/**
 * Derives the names from settings. Without an inbound listener, bounces go to the host in MAILCTL_RETURN_PATH_DOMAIN.
 */
export function sendingNames(settings: SendingSettings): SendingNames {
	const {hostname, returnPathDomain, inboundListen, bounceMailbox, sourceAddresses, delivery, relays} = settings;
	return {
		host: hostname,
		bounceHost: inboundListen === null ? returnPathDomain : hostname,
		returnPathDomain,
		sourceAddresses: sourceAddresses.map(({ip}) => ip),
		smarthosts: delivery === 'relay' ? [...new Set(relays.map(({host}) => host))] : [],
		receives: inboundListen !== null || bounceMailbox !== null,
		publicHost: publicHost(settings),
		policy: (reader, now) => readOwnPolicy(settings, reader, now),
	};
}

type RecordsInput = SendingNames & {
	readonly domain: Domain;
	readonly keys: readonly DkimKey[];
	/** The id of the installation's own MTA-STS policy. Absent if the policy is not announced. */
	readonly policyId?: string | undefined;
};

/** Receivers may verify a message long after it was signed (R5.3). */
const keepMs = 14 * 86_400_000;

/** Returns the host of the domain's own return path. */
export function returnPathHost({return_path_domain: own, name}: Pick<Domain, 'return_path_domain' | 'name'>): string {
	return own ?? `bounce.${name}`;
}

/**
 * Returns the address for DMARC reports. It is below the domain, so no authorizing record is needed (RFC 7489 §7.1).
 */
export function dmarcUri(domain: Pick<Domain, 'return_path_domain' | 'name'>): string {
	return `mailto:${reportLocals.dmarc}@${returnPathHost(domain)}`;
}

const record = (
	purpose: DomainRecord['purpose'],
	type: DomainRecord['type'],
	name: string,
	value: string,
	isRequired = false,
): DomainRecord => ({
	type,
	name,
	value,
	purpose,
	required: isRequired,
	found: [],
	key: null,
	alike: [],
	note: null,
	ready: true,
});

/** Returns the records that announce the MTA-STS policy and TLS reports of a host that accepts mail. */
export function hostRecords(host: string, publicHost: string, policyId: string): DomainRecord[] {
	return [
		record('mta_sts', 'TXT', `_mta-sts.${host}`, `v=STSv1; id=${policyId}`),
		{...record('mta_sts', 'CNAME', `mta-sts.${host}`, publicHost), ...publicHostReadiness(publicHost)},
		record('tls_report', 'TXT', `_smtp._tls.${host}`, `v=TLSRPTv1; rua=mailto:${reportLocals.tls}@${host}`),
	];
}

/**
 * Returns the records of a domain. Ownership or DKIM verifies it. The return path has its own host below the domain, so
 * its MX and SPF affect neither the domain's mail nor the ten lookups of its SPF record (RFC 7208 §4.6.4). DMARC is
 * only proposed.
 *
 * `src/resources/domains` decides which DNS records a sending domain needs, compares them with DNS, and derives from
 * that whether the domain may send. It relies on `src/net` for DNS and on `src/store` for its state. It never publishes
 * a record.
 */
export function domainRecords(input: RecordsInput): DomainRecord[] {
	const {domain, keys, bounceHost, returnPathDomain, receives, publicHost, policyId} = input;
	const returnPath = returnPathHost(domain);
	return [
		record('ownership', 'TXT', `_mailctl.${domain.name}`, `mailctl-verification=${domain.ownership_token}`, true),
		...keys.map(row => {
			const key = recordKey(row);
			// Gmail and Outlook verify only RSA, so the Ed25519 signature is optional.
			const isRequired = row.algorithm === 'rsa-sha256' && key.state === 'active';
			const name = `${row.selector}._domainkey.${domain.name}`;
			return {...record('dkim', 'TXT', name, dkimRecordValue(row.public_key), isRequired), key};
		}),
		{
			...record('return_path', 'MX', returnPath, `10 ${bounceHost}`),
			alike: [returnPathDomain],
			...hostnameReadiness(bounceHost),
		},
		{...record('spf', 'TXT', returnPath, ''), ...proposeSpf(input)},
		record(
			'dmarc',
			'TXT',
			`_dmarc.${domain.name}`,
			`v=DMARC1; p=none${receives ? `; rua=${dmarcUri(domain)}` : ''}`,
		),
		...(domain.link_host === null
			? []
			: [{...record('links', 'CNAME', domain.link_host, publicHost), ...publicHostReadiness(publicHost)}]),
		...(policyId === undefined ? [] : hostRecords(returnPath, publicHost, policyId)),
	];
}

/** Returns the records of a domain, with the current MTA-STS policy. `now` is in milliseconds. */
export async function readDomainRecords(
	reader: Knex,
	names: SendingNames,
	domain: Domain,
	keys: readonly DkimKey[],
	now: number,
): Promise<DomainRecord[]> {
	return domainRecords({...names, domain, keys, policyId: (await names.policy(reader, now))?.id});
}

function recordKey(row: DkimKey): RecordKey {
	const {id, algorithm, retired_at: retiredAt} = row;
	const keepUntil = retiredAt === null ? null : storeTime(Date.parse(retiredAt) + keepMs);
	return {id, algorithm, state: keyState(row), keep_until: keepUntil};
}

function proposeSpf(names: SendingNames): Pick<DomainRecord, 'value' | 'note'> & Partial<DomainRecord> {
	const {host, sourceAddresses, smarthosts} = names;
	if (smarthosts.length > 0) {
		const proposal = smarthostSpf(smarthosts, host);
		return smarthosts.some(isThisMachine) && !host.includes('.')
			? {...proposal, ...hostnameReadiness(host)}
			: proposal;
	}
	const sources = sourceAddresses.map(address => `${address.includes(':') ? 'ip6' : 'ip4'}:${address}`);
	return sources.length > 0
		? {value: `v=spf1 ${sources.join(' ')} -all`, note: null}
		: {value: `v=spf1 a:${host} -all`, ...hostnameReadiness(host)};
}

/** Returns a note if the host name has no dot, because others could not resolve it. */
function hostnameReadiness(host: string): Pick<DomainRecord, 'note' | 'ready'> {
	const isReady = host.includes('.');
	return {
		ready: isReady,
		note: isReady ? null : `set MAILCTL_HOSTNAME to a full name such as mail.example.com first (it is ${host})`,
	};
}

/** Returns a note if an alias cannot point to the host, because others could not resolve it. */
function publicHostReadiness(host: string): Pick<DomainRecord, 'note' | 'ready'> {
	const isReady = host.includes('.') && isIP(host) === 0;
	return {
		ready: isReady,
		note: isReady ? null : `set MAILCTL_PUBLIC_URL to a URL with a full host name first (its host is ${host})`,
	};
}

const ttl = 3600;
const maxStringLength = 255;

/**
 * Returns records as lines of a zone file (RFC 1035 §5.1), with absolute names and TXT strings of at most 255 octets.
 * DMARC is commented out, because a second DMARC record would invalidate both. So are records of keys that are no
 * longer needed, and records with a placeholder.
 */
export function zoneFile(domain: string, records: readonly DomainRecord[], now: string): string[] {
	return [
		`; ${domain}: DNS records for mailctl`,
		...records.flatMap(record => {
			const line = `${record.name}. ${ttl} IN ${record.type} ${toZoneData(record)}`;
			if (record.purpose === 'dmarc') {
				return ['; only if there is no DMARC record yet:', `; ${line}`];
			}
			if (!record.ready) {
				return [`; ${record.type} ${record.name}: ${record.note}`];
			}
			if (record.value.includes(unknownInclude)) {
				return [`; ${record.note}:`, `; ${line}`];
			}
			const keepUntil = record.key?.keep_until ?? null;
			return keepUntil !== null && keepUntil <= now ? [`; no longer needed: ${line}`] : [line];
		}),
	];
}

function toZoneData({type, value}: DomainRecord): string {
	return type === 'TXT' ? toStrings(value).map(quoted).join(' ') : `${value}.`;
}

function toStrings(value: string): string[] {
	const strings: string[] = [];
	for (let from = 0; from === 0 || from < value.length; from += maxStringLength) {
		strings.push(value.slice(from, from + maxStringLength));
	}
	return strings;
}

function quoted(text: string): string {
	return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

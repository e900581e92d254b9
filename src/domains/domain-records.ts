import {isIP} from 'node:net';
import type {Knex} from 'knex';
import {dkimRecordValue} from '../compose/dkim.ts';
import {publicHost} from '../config/derive.ts';
import {storeTime} from '../kit/time.ts';
import {reportLocals} from '../mail/aggregate.ts';
import {type OwnPolicy, readOwnPolicy} from '../mta-sts/own-policy.ts';
import {type DkimKey, type Domain, keyState} from '../store/domains.ts';
import {isThisMachine, smarthostSpf, unknownInclude} from './spf.ts';

export const recordPurposes = [
	...(['ownership', 'dkim', 'return_path', 'spf', 'dmarc', 'links', 'mta_sts', 'tls_report'] as const),
] as const;
export type RecordPurpose = (typeof recordPurposes)[number];

/** A DNS record to publish (docs/guide/domains.md). */
export type DomainRecord = {
	readonly type: 'TXT' | 'MX' | 'CNAME';
	readonly name: string;
	/** Whole, as most DNS panels take it; a zone file splits a TXT into strings of at most 255 octets. */
	readonly value: string;
	readonly purpose: RecordPurpose;
	/** Without it mail from the domain fails checks, or the domain cannot be verified. */
	readonly required: boolean;
	/** What DNS answered when it was asked last. */
	readonly found: readonly string[];
	/** The key that a DKIM record publishes. */
	readonly key: RecordKey | null;
	/** Of an MX: names with the same mail hosts; a record that points to the hosts of these is right, too. */
	readonly alike: readonly string[];
	/** What to know before it is published, a clause for people. */
	readonly note: string | null;
	/** False: the value names this machine and its name is not known; the note says what to set. */
	readonly ready: boolean;
};

export type RecordKey = {
	readonly id: string;
	readonly algorithm: DkimKey['algorithm'];
	/**
	 * `pending`: made by a rotation, signs once DNS shows it. `retired`: signs no more, its mail is still on the way.
	 */
	readonly state: 'active' | 'pending' | 'retired';
	/** How long the record of a retired key has to stay. */
	readonly keep_until: string | null;
};

/** How this installation sends, as the settings say. */
export type SendingNames = {
	/** This machine, by its name in DNS: MAILCTL_HOSTNAME. */
	readonly host: string;
	/** The host that takes bounces: an MX names one that has an address (RFC 5321 §5.1). */
	readonly bounceHost: string;
	/**
	 * The MX of this domain are the hosts that take bounces: other machines, a mailbox's provider
	 * (MAILCTL_RETURN_PATH_DOMAIN).
	 */
	readonly returnPathDomain: string;
	/** Addresses that mail leaves from (MAILCTL_SOURCE_ADDRESSES); none: those of this machine. */
	readonly sourceAddresses: readonly string[];
	/** Mail leaves from smarthosts, by addresses that are not known here. */
	readonly smarthosts: readonly string[];
	/** Mail to return path hosts comes in here, by the listener or a mailbox. */
	readonly receives: boolean;
	/** The host of MAILCTL_PUBLIC_URL. */
	readonly publicHost: string;
	/** Our own MTA-STS policy as it is now; null: there is none. */
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

/** The names of this installation: no domain may have one for its links. */
export const ownHosts = (settings: SendingSettings): string[] => [
	...[settings.hostname, settings.returnPathDomain, publicHost(settings)].map(host => host.toLowerCase()),
];

/** Where nothing listens here others take bounces: which host that is, only MAILCTL_RETURN_PATH_DOMAIN can say. */
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
	/** Of our own MTA-STS policy; absent: it is not announced. */
	readonly policyId?: string | undefined;
};

/** Receivers may verify a mail long after it was signed (R5.3). */
const keepMs = 14 * 86_400_000;

/** The host of the domain's own return path. */
export function returnPathHost({return_path_domain: own, name}: Pick<Domain, 'return_path_domain' | 'name'>): string {
	return own ?? `bounce.${name}`;
}

/** Where DMARC reports come in: below the domain, so that it needs no record that allows it (RFC 7489 §7.1). */
export function dmarcUri(domain: Pick<Domain, 'return_path_domain' | 'name'>): string {
	return `mailto:${reportLocals.dmarc}@${returnPathHost(domain)}`;
}

const record = (
	purpose: DomainRecord['purpose'],
	type: DomainRecord['type'],
	name: string,
	value: string,
	required = false,
): DomainRecord => ({type, name, value, purpose, required, found: [], key: null, alike: [], note: null, ready: true});

/** Of a host of ours that takes mail: what announces our MTA-STS policy, and where TLS reports go. */
export function hostRecords(host: string, publicHost: string, policyId: string): DomainRecord[] {
	return [
		record('mta_sts', 'TXT', `_mta-sts.${host}`, `v=STSv1; id=${policyId}`),
		{...record('mta_sts', 'CNAME', `mta-sts.${host}`, publicHost), ...reachable(publicHost)},
		record('tls_report', 'TXT', `_smtp._tls.${host}`, `v=TLSRPTv1; rua=mailto:${reportLocals.tls}@${host}`),
	];
}

/**
 * Ownership or DKIM is what verifies the domain. The return path has a host of its own below the domain, so its MX and
 * SPF touch neither the domain's mail nor its SPF record (RFC 7208 §4.6.4: ten look-ups). DMARC is only proposed.
 */
export function domainRecords(input: RecordsInput): DomainRecord[] {
	const {domain, keys, bounceHost, returnPathDomain, receives, publicHost, policyId} = input;
	const returnPath = returnPathHost(domain);
	return [
		record('ownership', 'TXT', `_mailctl.${domain.name}`, `mailctl-verification=${domain.ownership_token}`, true),
		...keys.map(row => {
			const key = recordKey(row);
			// Gmail and Outlook read RSA only; the second signature helps where it is understood.
			const required = row.algorithm === 'rsa-sha256' && key.state === 'active';
			const name = `${row.selector}._domainkey.${domain.name}`;
			return {...record('dkim', 'TXT', name, dkimRecordValue(row.public_key), required), key};
		}),
		{
			...record('return_path', 'MX', returnPath, `10 ${bounceHost}`),
			alike: [returnPathDomain],
			...named(bounceHost),
		},
		{...record('spf', 'TXT', returnPath, ''), ...spf(input)},
		record(
			'dmarc',
			'TXT',
			`_dmarc.${domain.name}`,
			`v=DMARC1; p=none${receives ? `; rua=${dmarcUri(domain)}` : ''}`,
		),
		...(domain.link_host === null
			? []
			: [{...record('links', 'CNAME', domain.link_host, publicHost), ...reachable(publicHost)}]),
		...(policyId === undefined ? [] : hostRecords(returnPath, publicHost, policyId)),
	];
}

/** With our own MTA-STS policy, which follows the certificate. `now`: milliseconds. */
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
	const until = retiredAt === null ? null : storeTime(Date.parse(retiredAt) + keepMs);
	return {id, algorithm, state: keyState(row), keep_until: until};
}

function spf(names: SendingNames): Pick<DomainRecord, 'value' | 'note'> & Partial<DomainRecord> {
	const {host, sourceAddresses, smarthosts} = names;
	if (smarthosts.length > 0) {
		const proposal = smarthostSpf(smarthosts, host);
		return smarthosts.some(isThisMachine) && !host.includes('.') ? {...proposal, ...named(host)} : proposal;
	}
	const sources = sourceAddresses.map(address => `${address.includes(':') ? 'ip6' : 'ip4'}:${address}`);
	return sources.length > 0
		? {value: `v=spf1 ${sources.join(' ')} -all`, note: null}
		: {value: `v=spf1 a:${host} -all`, ...named(host)};
}

/** Others cannot find a host by a name without a dot. */
function named(host: string): Pick<DomainRecord, 'note' | 'ready'> {
	const ready = host.includes('.');
	return {
		ready,
		note: ready ? null : `set MAILCTL_HOSTNAME to a full name such as mail.example.com first, it is ${host}`,
	};
}

/** An alias names a host, and others must find that. */
function reachable(host: string): Pick<DomainRecord, 'note' | 'ready'> {
	const ready = host.includes('.') && isIP(host) === 0;
	return {
		ready,
		note: ready ? null : `set MAILCTL_PUBLIC_URL to an address with a full name first, its host is ${host}`,
	};
}

const ttl = 3600;
const maxStringLength = 255;

/**
 * Records as lines of a zone file (RFC 1035 §5.1): absolute names, a TXT in strings of at most 255 octets. DMARC is a
 * comment, because a second record beside one that is there would void both; so is the record of a key that is not
 * needed any more, and one with a placeholder.
 */
export function zoneFile(domain: string, records: readonly DomainRecord[], now: string): string[] {
	return [
		`; ${domain}: what mailctl needs in DNS`,
		...records.flatMap(record => {
			const line = `${record.name}. ${ttl} IN ${record.type} ${dataOf(record)}`;
			if (record.purpose === 'dmarc') {
				return ['; only where there is no DMARC record yet:', `; ${line}`];
			}
			if (!record.ready) {
				return [`; ${record.type} ${record.name}: ${record.note}`];
			}
			if (record.value.includes(unknownInclude)) {
				return [`; ${record.note}:`, `; ${line}`];
			}
			const until = record.key?.keep_until ?? null;
			return until !== null && until <= now ? [`; not needed any more: ${line}`] : [line];
		}),
	];
}

function dataOf({type, value}: DomainRecord): string {
	return type === 'TXT' ? stringsOf(value).map(quoted).join(' ') : `${value}.`;
}

function stringsOf(value: string): string[] {
	const strings: string[] = [];
	for (let from = 0; from === 0 || from < value.length; from += maxStringLength) {
		strings.push(value.slice(from, from + maxStringLength));
	}
	return strings;
}

function quoted(text: string): string {
	return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

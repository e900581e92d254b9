import {isIP} from 'node:net';
import type {Knex} from 'knex';
import {announcedId} from '../../deliver/sts-policies.ts';
import {parseDkimRecord, parseTagList, tagParts} from '../../mail/dkim-record.ts';
import type {DnsAnswer, Resolver} from '../../net/dns.ts';
import {type DomainRecord, hostRecords, type SendingNames} from './domain-records.ts';
import {compileSpf, isSpf, parseSpf, unknownInclude} from './spf.ts';

/** The DNS servers that are queried for records. */
type RecordSources = {
	/** One for each server in MAILCTL_DNS_SERVERS, or a single one for all servers of the system. */
	readonly resolvers: readonly Resolver[];
	/** Returns the domain's own name servers, which cache nothing, or `null` if they cannot be queried. */
	readonly authority: (domain: string) => Promise<Resolver | null>;
};

/** Opens the sources for one check, which closes them. */
export type OpenSources = () => RecordSources & {readonly close: () => void};

export type CheckedRecord = DomainRecord &
	Verdict & {
		/** Whether at least one server returns the correct record. */
		readonly ok: boolean;
		/** Whether all resolvers that responded return the correct record, so that others will see it too. */
		readonly isPropagated: boolean;
	};

/**
 * Compares records with DNS. Our own cache is bypassed and each resolver is queried. If none of them has a record, the
 * zone's own servers are queried too, because a resolver may cache for hours that a record does not exist.
 */
export async function checkDomainRecords(
	domain: string,
	records: readonly DomainRecord[],
	{resolvers, authority}: RecordSources,
): Promise<CheckedRecord[]> {
	let authorityResolver: Promise<Resolver | null> | undefined;
	return await Promise.all(
		records.map(async record => {
			const verdicts = await Promise.all(resolvers.map(resolver => judgeRecord(resolver, record)));
			const answered = verdicts.filter(({state}) => state !== 'unknown');
			const isPropagated = answered.length > 0 && answered.every(({state}) => state === 'ok');
			if (!verdicts.some(({state}) => state === 'ok')) {
				authorityResolver ??= authority(domain);
				const source = await authorityResolver;
				verdicts.push(...(source === null ? [] : [await judgeRecord(source, record)]));
			}
			return {...record, ...bestOf(verdicts), isPropagated};
		}),
	);
}

/** Checks the records of a host on which this installation accepts mail. There are none without a TLS listener. */
export async function checkHostRecords(
	reader: Knex,
	host: string,
	names: SendingNames,
	open: OpenSources,
	now: number,
) {
	const policy = await names.policy(reader, now);
	const records = policy === null ? [] : hostRecords(host, names.publicHost, policy.id);
	const sources = open();
	return await checkDomainRecords(host, records, sources).finally(sources.close);
}

const bestFirst: ReadonlyArray<Verdict['state']> = ['ok', 'different', 'missing', 'unknown'];

function bestOf(verdicts: readonly Verdict[]): Verdict & {ok: boolean} {
	const [verdict] = verdicts.toSorted((a, b) => bestFirst.indexOf(a.state) - bestFirst.indexOf(b.state));
	return {
		...(verdict ?? {state: 'unknown', found: [], problem: 'no resolver is configured'}),
		ok: verdict?.state === 'ok',
	};
}

/** The result of checking a record. `unknown` means that DNS did not respond. */
type Verdict = {
	readonly state: 'ok' | 'missing' | 'different' | 'unknown';
	readonly found: readonly string[];
	/** The problem as a clause for people, or a remark about a correct record. */
	readonly problem: string | null;
};

const minLabels = 2;

/** Compares a record with the response of one resolver, by meaning rather than by spelling. */
export async function judgeRecord(resolver: Resolver, record: DomainRecord): Promise<Verdict> {
	switch (record.purpose) {
		case 'ownership':
			return await judgeTexts(resolver, record, judgeOwnership);
		case 'dkim':
			return await judgeTexts(resolver, record, judgeDkim);
		case 'return_path':
			return await judgeReturnPath(resolver, record);
		case 'spf':
			return await judgeSpf(resolver, record);
		case 'dmarc':
			return await judgeDmarc(resolver, record);
		case 'links':
			return await judgeTarget(resolver, record);
		case 'mta_sts':
			return await (record.type === 'CNAME'
				? judgeTarget(resolver, record)
				: judgeTexts(resolver, record, judgePolicyId));
		case 'tls_report':
			return await judgeTexts(resolver, record, judgeTlsReport);
	}
}

const missing: Verdict = {state: 'missing', found: [], problem: null};

function ok(found: readonly string[], problem: string | null = null): Verdict {
	return {state: 'ok', found, problem};
}

function different(found: readonly string[], problem: string): Verdict {
	return {state: 'different', found, problem};
}

/** Returns the records of a DNS response, or the verdict if there are none. */
function recordsIn<T>(answer: DnsAnswer<T>): readonly T[] | Verdict {
	switch (answer.kind) {
		case 'found':
			return answer.records;
		case 'failed':
			return {state: 'unknown', found: [], problem: `DNS did not answer (${answer.code})`};
		default:
			return missing;
	}
}

function isVerdict(value: readonly unknown[] | Verdict): value is Verdict {
	return !Array.isArray(value);
}

type JudgeTexts = (texts: readonly string[], record: DomainRecord) => Verdict;

async function judgeTexts(resolver: Resolver, record: DomainRecord, judge: JudgeTexts): Promise<Verdict> {
	const texts = recordsIn(await resolver.txt(record.name, true));
	return isVerdict(texts) ? texts : judge(texts, record);
}

function judgeOwnership(texts: readonly string[], {value}: DomainRecord): Verdict {
	return texts.some(text => text.trim() === value) ? ok(texts) : different(texts, 'its text is different');
}

/** Other texts at the same name are allowed, but not a second key: RFC 6376 §3.6.2.2 leaves open which one counts. */
function judgeDkim(texts: readonly string[], {value}: DomainRecord): Verdict {
	const keys = texts.map(text => parseDkimRecord(text)).filter(key => key !== undefined);
	const [found] = keys;
	const expected = parseDkimRecord(value);
	if (found === undefined) {
		return different(texts, 'it is not a DKIM key');
	}
	if (keys.length > 1) {
		return different(texts, `there are ${keys.length} keys, but only one is allowed`);
	}
	if (found.problem !== null) {
		return different(texts, found.problem);
	}
	if (found.key === null) {
		return different(texts, 'the key is revoked, its p= is empty');
	}
	if (expected?.key == null || found.algorithm !== expected.algorithm || !found.key.equals(expected.key)) {
		return different(texts, 'it is a different key');
	}
	return ok(texts, found.isTesting ? 't=y marks DKIM as being tested, so some receivers ignore the signature' : null);
}

/**
 * Accepts an MX or a CNAME: mail to the name must go to the same hosts as mail to the bounce host, or to the domain of
 * the return paths, which another machine may handle.
 */
async function judgeReturnPath(resolver: Resolver, {name, value, alike}: DomainRecord): Promise<Verdict> {
	const host = value.split(' ').at(-1) ?? '';
	const expected = new Set([host, ...alike]);
	const problem = `bounces would not reach ${host}`;
	const answer = await resolver.mx(name, true);
	const records = recordsIn(answer);
	if (isVerdict(records)) {
		return answer.kind === 'nodata' ? await judgeAlias(resolver, name, expected, problem) : records;
	}
	const found = records.map(({priority, exchange}) => `${priority} ${exchange || '.'}`);
	const lowest = Math.min(...records.map(({priority}) => priority));
	const preferred = records.filter(({priority}) => priority === lowest).map(({exchange}) => exchange.toLowerCase());
	if (preferred.every(exchange => expected.has(exchange))) {
		return ok(found);
	}
	const mxAnswers = await Promise.all([...expected].map(target => resolver.mx(target, true)));
	const hosts = new Set([
		...expected,
		...mxAnswers.flatMap(mx => (mx.kind === 'found' ? mx.records.map(({exchange}) => exchange.toLowerCase()) : [])),
	]);
	return preferred.every(exchange => hosts.has(exchange)) ? ok(found) : different(found, problem);
}

async function judgeAlias(
	resolver: Resolver,
	name: string,
	expected: ReadonlySet<string>,
	problem: string,
): Promise<Verdict> {
	const aliases = recordsIn(await resolver.cname(name, true));
	if (isVerdict(aliases)) {
		return aliases;
	}
	const found = aliases.map(alias => `CNAME ${alias}`);
	return aliases.some(alias => expected.has(alias.toLowerCase())) ? ok(found) : different(found, problem);
}

async function judgeSpf(resolver: Resolver, {name, value}: DomainRecord): Promise<Verdict> {
	const texts = recordsIn(await resolver.txt(name, true));
	if (isVerdict(texts)) {
		return texts;
	}
	const found = texts.filter(isSpf);
	const [text] = found;
	if (text === undefined) {
		return missing;
	}
	if (found.length > 1) {
		return different(found, `there are ${found.length} SPF records, but only one is allowed`);
	}
	const parsed = parseSpf(text);
	if (!parsed.ok) {
		return different(found, parsed.problem);
	}
	// A proposal that ends in ~all is for smarthosts, whose addresses can be published in other ways too.
	if (value.endsWith('~all')) {
		return judgeIncludes(text, value);
	}
	return await judgeCover(resolver, name, value, found);
}

function judgeIncludes(text: string, value: string): Verdict {
	const [included, expected] = [parseIncludes(text), parseIncludes(value)];
	if (included.includes(unknownInclude)) {
		return different([text], `${unknownInclude} is a placeholder for the value from your provider`);
	}
	const absent = expected.filter(target => target !== unknownInclude && !included.includes(target));
	return ok(
		[text],
		absent.length === 0
			? null
			: `it does not include ${absent.join(', ')}: make sure that it covers the same hosts`,
	);
}

function parseIncludes(text: string): string[] {
	const parsed = parseSpf(text);
	const mechanisms = parsed.ok ? parsed.record.mechanisms : [];
	return mechanisms.flatMap(({name, target}) =>
		name === 'include' && target !== null ? [target.toLowerCase()] : [],
	);
}

/** Checks that every address in the proposal passes. */
async function judgeCover(resolver: Resolver, name: string, value: string, found: readonly string[]): Promise<Verdict> {
	const expected = await findAddresses(resolver, value);
	if (isVerdict(expected)) {
		return {...expected, found};
	}
	const check = compileSpf(resolver, name);
	for (const ip of expected) {
		const result = await check(ip);
		switch (result.kind) {
			case 'pass':
				break;
			case 'temperror':
				return {state: 'unknown', found, problem: result.why};
			case 'permerror':
				return different(found, result.why);
			default:
				return different(found, `it does not allow ${ip}`);
		}
	}
	return expected.length > 0 ? ok(found) : different(found, 'the sending host has no address');
}

async function findAddresses(resolver: Resolver, value: string): Promise<readonly string[] | Verdict> {
	const parsed = parseSpf(value);
	const addresses: string[] = [];
	for (const {name, target} of parsed.ok ? parsed.record.mechanisms : []) {
		if (target !== null && isIP(target) !== 0) {
			addresses.push(target);
		} else if (name === 'a' && target !== null) {
			for (const answer of await Promise.all([resolver.a(target), resolver.aaaa(target)])) {
				const records = recordsIn(answer);
				if (!isVerdict(records)) {
					addresses.push(...records);
				} else if (records.state === 'unknown') {
					return {...records, problem: `DNS did not answer for ${target}`};
				}
			}
		}
	}
	return addresses;
}

/** Judges the policy of the domain, or of its nearest parent that has one. A tree walk needs no public suffix list. */
async function judgeDmarc(resolver: Resolver, {name, value}: DomainRecord): Promise<Verdict> {
	const labels = name.split('.').slice(1);
	for (let from = 0; labels.length - from >= minLabels; from++) {
		const owner = `_dmarc.${labels.slice(from).join('.')}`;
		const texts = recordsIn(await resolver.txt(owner, true));
		if (isVerdict(texts)) {
			if (texts.state === 'unknown') {
				return texts;
			}
			continue;
		}
		const policies = texts.filter(text => /^v\s*=\s*DMARC1\b/i.test(text));
		if (policies.length > 1) {
			return different(policies, `there are ${policies.length} DMARC records at ${owner}, so all are ignored`);
		}
		if (policies[0] !== undefined) {
			return judgePolicy(
				policies[0],
				owner === name ? describeMissingReports(policies[0], value) : `it is inherited from ${owner}`,
			);
		}
	}
	return missing;
}

/** Returns a remark if DMARC reports could be sent to this installation but go elsewhere. */
function describeMissingReports(text: string, proposed: string): string | null {
	const ownUri = parseTagList(proposed)?.get('rua');
	const isIncluded = ownUri === undefined || includesUri(parseTagList(text)?.get('rua'), ownUri);
	return isIncluded ? null : `its rua= does not include ${ownUri}, so reports are not sent here`;
}

/** Whether a `rua=` contains an address, with or without a size limit (RFC 7489 §6.2). */
export function includesUri(rua: string | undefined, uri: string): boolean {
	return tagParts(rua, ',').some(part => part.toLowerCase().replace(/!\d+[kmgt]?$/, '') === uri);
}

function judgePolicy(text: string, remark: string | null): Verdict {
	const tags = parseTagList(text);
	if (tags?.get('v') !== 'DMARC1') {
		return different([text], 'it is not a list of tags that begins with v=DMARC1');
	}
	// RFC 7489 §6.6.3: a record without a valid policy counts as p=none if it requests reports.
	const isValid = /^(?:none|quarantine|reject)$/i.test(tags.get('p') ?? '') || tags.has('rua');
	return isValid ? ok([text], remark) : different([text], 'its p= must be none, quarantine or reject');
}

/** Accepts an alias or the same addresses, because it only matters that browsers reach this installation. */
async function judgeTarget(resolver: Resolver, {name, value}: DomainRecord): Promise<Verdict> {
	const problem = `it does not point to ${value}`;
	const byAlias = await judgeAlias(resolver, name, new Set([value.toLowerCase()]), problem);
	if (byAlias.state === 'ok') {
		return byAlias;
	}
	const addresses = await hostAddresses(resolver, name);
	if (isVerdict(addresses)) {
		return addresses;
	}
	const expected = await hostAddresses(resolver, value);
	if (isVerdict(expected)) {
		return {state: 'unknown', found: [], problem: `DNS returned no address for ${value}`};
	}
	return addresses.every(address => expected.includes(address)) ? ok(addresses) : different(addresses, problem);
}

async function hostAddresses(resolver: Resolver, host: string): Promise<readonly string[] | Verdict> {
	const results = (await Promise.all([resolver.a(host, true), resolver.aaaa(host, true)])).map(recordsIn);
	const addresses = results.flatMap(records => (isVerdict(records) ? [] : records));
	return addresses.length > 0
		? addresses
		: (results.find(result => isVerdict(result) && result.state === 'unknown') ?? missing);
}

/** The id must be current, because others fetch the policy again only when its id changes. */
function judgePolicyId(texts: readonly string[], {value}: DomainRecord): Verdict {
	const id = announcedId(texts);
	if (id === null) {
		return different(texts, 'it is not a single MTA-STS record');
	}
	return id === announcedId([value]) ? ok(texts) : different(texts, 'its id is that of another policy');
}

function judgeTlsReport(texts: readonly string[], {value}: DomainRecord): Verdict {
	const found = texts.filter(text => /^v=TLSRPTv1[ \t]*;/.test(text));
	if (found.length !== 1) {
		return different(texts, 'it is not a single TLSRPT record');
	}
	// Reports may be sent to other addresses too, or only to others.
	const expected = value.slice(value.indexOf('mailto:')).toLowerCase();
	return ok(found, found[0]?.toLowerCase().includes(expected) ? null : 'its reports go elsewhere');
}

// Texts about records that the command line and the dashboard share.

const purposes: Readonly<Record<DomainRecord['purpose'], string>> = {
	ownership: 'ownership',
	dkim: 'DKIM',
	return_path: 'return path',
	spf: 'SPF of return path',
	dmarc: 'DMARC',
	links: 'links',
	mta_sts: 'MTA-STS',
	tls_report: 'TLS reports',
};

export const keyAlgorithms = {'rsa-sha256': 'RSA', 'ed25519-sha256': 'Ed25519'} as const;

/** Returns the purpose of a record for people, such as `DKIM RSA, new key`. */
export function describePurpose({purpose, required, key}: DomainRecord): string {
	const optional = required ? '' : ', optional';
	if (key === null) {
		return `${purposes[purpose]}${optional}`;
	}
	const name = `DKIM ${keyAlgorithms[key.algorithm]}`;
	switch (key.state) {
		case 'active':
			return `${name}${optional}`;
		case 'pending':
			return `${name}, new key`;
		case 'retired':
			return `${name} until ${key.keep_until?.slice(0, 10)}`;
	}
}

/** Whether no active key has its record published, so that receivers treat the domain's mail as unsigned. */
export function isUnsigned(records: readonly CheckedRecord[]): boolean {
	return !records.some(({purpose, key, ok}) => purpose === 'dkim' && key?.state === 'active' && ok);
}

/** Returns the missing records that would verify the domain. Publishing one of them is enough. */
export function missingProofs<Row extends DomainRecord & Partial<CheckedRecord>>(records: readonly Row[]): Row[] {
	return records.filter(
		({purpose, required, ok}) => !ok && required && (purpose === 'ownership' || purpose === 'dkim'),
	);
}

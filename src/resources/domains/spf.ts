import {isIP} from 'node:net';
import ipaddr from 'ipaddr.js';
import {type ProviderName, providerHosts} from '../../mail/provider.ts';
import type {DnsAnswer, Resolver} from '../../net/dns.ts';
import {isLoopbackAddress} from '../../net/ip-address.ts';

/** The SPF result for mail from an address (RFC 7208 §2.6). `permerror` and `temperror` include the reason. */
type SpfResult =
	| {readonly kind: 'none' | 'neutral' | 'pass' | 'fail' | 'softfail'}
	| {readonly kind: 'permerror' | 'temperror'; readonly why: string};

const results = {'+': 'pass', '-': 'fail', '~': 'softfail', '?': 'neutral'} as const satisfies Record<
	SpfQualifier,
	SpfResult['kind']
>;
const maxLookUps = 10;
const maxVoidLookups = 2;
const maxHosts = 10;

/** Thrown to abort an evaluation from within nested includes. It is always caught in this file. */
class SpfAbort extends Error {
	readonly result: SpfResult;
	constructor(kind: 'permerror' | 'temperror', why: string) {
		super(why);
		this.result = {kind, why};
	}
}

/** Returns the SPF result for mail from an IP address. */
type SpfCheck = (ip: string) => Promise<SpfResult>;

/**
 * Checks IP addresses against a domain's SPF record (RFC 7208 §4, `check_host`). Terms with macros depend on the
 * message and match nothing here, nor does `ptr`, which RFC 7208 §5.5 says not to use. Each record is parsed, and each
 * name queried, once for all addresses.
 */
export function compileSpf(resolver: Resolver, domain: string): SpfCheck {
	const cache = new SpfCache(resolver);
	return async ip => {
		try {
			return {kind: await new Evaluation(cache, ip).evaluate(domain)} as SpfResult;
		} catch (error) {
			if (error instanceof SpfAbort) {
				return error.result;
			}
			throw error;
		}
	};
}

/** Caches DNS responses, and failures too, because each address would otherwise wait for the same timeout again. */
class SpfCache {
	readonly #resolver: Resolver;
	readonly #known = new Map<string, Promise<unknown>>();

	constructor(resolver: Resolver) {
		this.#resolver = resolver;
	}

	#once<Result>(key: string, query: () => Promise<Result>): Promise<Result> {
		const known = this.#known.get(key) ?? query();
		this.#known.set(key, known);
		return known as Promise<Result>;
	}

	/** Returns `null` if the name has no SPF record. */
	record(name: string): Promise<CompiledRecord | null> {
		return this.#once(`TXT ${name}`, async () => {
			const records = toRecords(await this.#resolver.txt(name), name).filter(isSpf);
			if (records.length > 1) {
				throw new SpfAbort('permerror', `${name} has ${records.length} SPF records, but only one is allowed`);
			}
			const parsed = records[0] === undefined ? null : parseSpf(records[0]);
			if (parsed?.ok === false) {
				throw new SpfAbort('permerror', `the SPF record of ${name} is invalid: ${parsed.problem}`);
			}
			return parsed && compile(parsed.record);
		});
	}

	/** Returns the A or AAAA records of a host. */
	addresses(family: 'a' | 'aaaa', host: string): Promise<readonly Uint8Array[]> {
		return this.#once(`${family} ${host}`, async () =>
			toRecords(await this.#resolver[family](host), host).map(bytesOf),
		);
	}

	exchanges(host: string): Promise<readonly string[]> {
		return this.#once(`MX ${host}`, async () =>
			toRecords(await this.#resolver.mx(host), host).map(({exchange}) => exchange),
		);
	}
}

type CompiledRecord = {
	readonly mechanisms: ReadonlyArray<SpfMechanism & {readonly network: Uint8Array | null}>;
	readonly redirect: string | null;
};

/** `network` is the address of `ip4` and `ip6`, and `null` for all other mechanisms. */
function compile({mechanisms, redirect}: SpfRecord): CompiledRecord {
	const networkOf = ({name, target}: SpfMechanism) =>
		target !== null && (name === 'ip4' || name === 'ip6') ? bytesOf(target) : null;
	return {mechanisms: mechanisms.map(term => ({...term, network: networkOf(term)})), redirect};
}

function toRecords<T>(answer: DnsAnswer<T>, name: string): readonly T[] {
	if (answer.kind === 'failed') {
		throw new SpfAbort('temperror', `DNS did not answer for ${name} (${answer.code})`);
	}
	return answer.kind === 'found' ? answer.records : [];
}

/** One run of `check_host`, with its limits. */
class Evaluation {
	readonly #cache: SpfCache;
	/** `null` if it is not an IP address; then only `all` matches. */
	readonly #ip: Uint8Array | null;
	#lookUps = maxLookUps;
	#voids = maxVoidLookups;

	constructor(cache: SpfCache, ip: string) {
		this.#cache = cache;
		this.#ip = isIP(ip) === 0 ? null : bytesOf(ip);
	}

	async evaluate(name: string): Promise<SpfResult['kind']> {
		const record = await this.#cache.record(name);
		if (record === null) {
			return 'none';
		}
		for (const mechanism of record.mechanisms) {
			const {network} = mechanism;
			if (network === null ? await this.#matches(mechanism, name) : this.#isWithin(network, mechanism.prefix)) {
				return results[mechanism.qualifier];
			}
		}
		return record.redirect === null ? 'neutral' : await this.#follow(record.redirect);
	}

	#count(): void {
		this.#lookUps--;
		if (this.#lookUps < 0) {
			throw new SpfAbort('permerror', `it needs more than ${maxLookUps} DNS lookups`);
		}
	}

	#countVoid<T>(records: readonly T[], name: string): readonly T[] {
		if (records.length === 0) {
			this.#voids--;
			if (this.#voids < 0) {
				throw new SpfAbort(
					'permerror',
					`more than ${maxVoidLookups} of its names have no records, such as ${name}`,
				);
			}
		}
		return records;
	}

	async #follow(target: string): Promise<SpfResult['kind']> {
		this.#count();
		const result = target.includes('%') ? 'neutral' : await this.evaluate(target);
		if (result === 'none') {
			throw new SpfAbort('permerror', `${target}, which it refers to, has no SPF record`);
		}
		return result;
	}

	/** Whether a mechanism other than `ip4` and `ip6` matches. */
	async #matches({name, target, prefix}: SpfMechanism, domain: string): Promise<boolean> {
		const host = target ?? domain;
		if (name === 'all') {
			return true;
		}
		if (name === 'include') {
			return (await this.#follow(host)) === 'pass';
		}
		this.#count();
		if (name === 'ptr' || host.includes('%')) {
			return false;
		}
		const cache = this.#cache;
		if (name === 'exists') {
			return this.#countVoid(await cache.addresses('a', host), host).length > 0;
		}
		const hosts = name === 'a' ? [host] : this.#countVoid(await cache.exchanges(host), host);
		for (const candidate of hosts.slice(0, maxHosts)) {
			const resolved = await cache.addresses(this.#ip?.length === 16 ? 'aaaa' : 'a', candidate);
			const addresses = name === 'a' ? this.#countVoid(resolved, candidate) : resolved;
			if (addresses.some(address => this.#isWithin(address, prefix))) {
				return true;
			}
		}
		return false;
	}

	#isWithin(network: Uint8Array, {ip4, ip6}: SpfMechanism['prefix']): boolean {
		return this.#ip !== null && isWithin(this.#ip, network, network.length === 4 ? ip4 : ip6);
	}
}

/** Returns an address in its binary form of four or sixteen octets. */
const bytesOf = (ip: string): Uint8Array => Uint8Array.from(ipaddr.parse(ip).toByteArray());

function isWithin(ip: Uint8Array, network: Uint8Array, prefix: number): boolean {
	if (ip.length !== network.length) {
		return false;
	}
	const wholeOctets = prefix >> 3;
	for (let index = 0; index < wholeOctets; index++) {
		if (ip[index] !== network[index]) {
			return false;
		}
	}
	const shift = 8 - (prefix & 7);
	return shift === 8 || (ip[wholeOctets] ?? 0) >> shift === (network[wholeOctets] ?? 0) >> shift;
}

type SpfQualifier = '+' | '-' | '~' | '?';

type SpfMechanism = {
	readonly name: 'all' | 'include' | 'a' | 'mx' | 'ptr' | 'ip4' | 'ip6' | 'exists';
	readonly qualifier: SpfQualifier;
	/** A name (possibly with macros), or an address for `ip4` and `ip6`; `null` for the domain itself. */
	readonly target: string | null;
	/** Prefix lengths for IPv4 and IPv6 addresses. */
	readonly prefix: {readonly ip4: number; readonly ip6: number};
};

type SpfRecord = {readonly mechanisms: readonly SpfMechanism[]; readonly redirect: string | null};

type ParsedSpf = {readonly ok: true; readonly record: SpfRecord} | {readonly ok: false; readonly problem: string};

const mechanism =
	/^([-+~?])?(all|include|a|mx|ptr|ip4|ip6|exists)(?::([^/]+|[0-9a-f:.]+))?(?:\/(\d{1,3}))?(?:\/\/(\d{1,3}))?$/i;
const modifier = /^([a-z][\w.-]*)=(.*)$/i;
/** Limits on records of other domains, which are untrusted. */
const maxLength = 4096;
const maxTerms = 100;
const maxNameLength = 253;
/** The number of characters of a term that an error message quotes. */
const maxQuoted = 100;

/** Whether a TXT record is an SPF record (RFC 7208 §4.5). */
export function isSpf(text: string): boolean {
	return /^v=spf1(?: |$)/i.test(text);
}

/** Parses an SPF record (RFC 7208 §12). `problem` quotes the invalid term. */
export function parseSpf(text: string): ParsedSpf {
	if (!isSpf(text)) {
		return {ok: false, problem: 'it is not an SPF record'};
	}
	if (Buffer.byteLength(text) > maxLength) {
		return {ok: false, problem: `it is longer than ${maxLength} octets`};
	}
	const terms = text
		.split(' ')
		.slice(1)
		.filter(term => term !== '');
	if (terms.length > maxTerms) {
		return {ok: false, problem: `it has more than ${maxTerms} terms`};
	}
	const mechanisms: SpfMechanism[] = [];
	const redirects: string[] = [];
	for (const term of terms) {
		const [, name, value] = modifier.exec(term) ?? [];
		if (name !== undefined) {
			if (name?.toLowerCase() === 'redirect') {
				redirects.push(value as string);
			}
			continue;
		}
		const parsed = parseMechanism(term);
		if (parsed === null) {
			return {ok: false, problem: `"${term.slice(0, maxQuoted)}" is not a valid term`};
		}
		mechanisms.push(parsed);
	}
	if (redirects.length > 1 || redirects[0] === '') {
		return {ok: false, problem: 'redirect= must occur only once and contain a domain'};
	}
	return {ok: true, record: {mechanisms, redirect: redirects[0] ?? null}};
}

function parseMechanism(term: string): SpfMechanism | null {
	const [, qualifier = '+', spelled = '', target = null, ip4, ip6] = mechanism.exec(term) ?? [];
	const name = spelled.toLowerCase() as SpfMechanism['name'];
	const prefix =
		name === 'ip6' ? {ip4: 32, ip6: Number(ip4 ?? 128)} : {ip4: Number(ip4 ?? 32), ip6: Number(ip6 ?? 128)};
	return isValidTerm(name, target, [ip4, ip6], prefix)
		? {name, qualifier: qualifier as SpfQualifier, target, prefix}
		: null;
}

function isValidTerm(
	name: SpfMechanism['name'] | '',
	target: string | null,
	[first, second]: readonly [string | undefined, string | undefined],
	prefix: SpfMechanism['prefix'],
): boolean {
	if (prefix.ip4 > 32 || prefix.ip6 > 128 || (target?.length ?? 0) > maxNameLength) {
		return false;
	}
	const isBare = first === undefined && second === undefined;
	switch (name) {
		case '':
			return false;
		case 'all':
			return target === null && isBare;
		case 'include':
		case 'exists':
			return target !== null && isBare;
		case 'ptr':
			return isBare;
		case 'a':
		case 'mx':
			return true;
		case 'ip4':
			return isIP(target ?? '') === 4 && second === undefined;
		case 'ip6':
			return isIP(target ?? '') === 6 && !target?.includes('%') && second === undefined;
	}
}

/** A reserved domain (RFC 2606 §2) as a placeholder for a value that only the smarthost's provider knows. */
export const unknownInclude = 'ask-your-provider.invalid';

type Provider = {
	readonly name: string;
	readonly hosts: RegExp | undefined;
	readonly include: string;
	/** Whether it replaces the return path with its own, so that receivers check SPF there. */
	readonly hasOwnReturnPath: boolean;
};

const sendingService = (id: ProviderName, name: string, include: string): Provider => ({
	name,
	include,
	hosts: providerHosts.get(id),
	hasOwnReturnPath: true,
});

// According to the providers' documentation of SPF.
const providers: readonly Provider[] = [
	sendingService('ses', 'Amazon SES', 'amazonses.com'),
	sendingService('mailgun', 'Mailgun', 'mailgun.org'),
	sendingService('postmark', 'Postmark', 'spf.mtasv.net'),
	sendingService('sendgrid', 'SendGrid', 'sendgrid.net'),
	sendingService('brevo', 'Brevo', 'spf.brevo.com'),
	sendingService('mailjet', 'Mailjet', 'spf.mailjet.com'),
	{
		name: 'Google',
		hosts: /(?:^|\.)(?:gmail|google|googlemail)\.com$/,
		include: '_spf.google.com',
		hasOwnReturnPath: false,
	},
	{
		name: 'Microsoft 365',
		hosts: /(?:^|\.)(?:office365|(?:protection\.)?outlook)\.com$/,
		include: 'spf.protection.outlook.com',
		hasOwnReturnPath: false,
	},
];

/**
 * Returns the SPF record for mail that leaves through smarthosts, and a note for people or `null`. An unknown smarthost
 * gets a placeholder, and one on this machine gets the machine's name. The record ends in `~all`, because only the
 * operators of smarthosts know all their sending addresses.
 */
export function smarthostSpf(
	hosts: readonly string[],
	machine: string,
): {readonly value: string; readonly note: string | null} {
	const terms = new Set<string>();
	const notes = new Set<string>();
	for (const host of hosts) {
		const provider = providers.find(({hosts}) => hosts?.test(host.toLowerCase()));
		if (isThisMachine(host)) {
			terms.add(`a:${machine}`);
		} else if (isIP(host) !== 0) {
			terms.add(`${isIP(host) === 6 ? 'ip6' : 'ip4'}:${host}`);
		} else if (provider === undefined) {
			terms.add(`include:${unknownInclude}`);
			notes.add(`ask the provider of ${host} for the value to replace include:${unknownInclude}`);
		} else {
			terms.add(`include:${provider.include}`);
			if (provider.hasOwnReturnPath) {
				notes.add(
					`${provider.name} uses its own return path: for SPF to align, set one up there below your domain`,
				);
			}
		}
	}
	return {value: `v=spf1 ${[...terms].join(' ')} ~all`, note: [...notes].join('; ') || null};
}

/** Whether a smarthost runs on this machine, such as a local Postfix. */
export function isThisMachine(host: string): boolean {
	return host === 'localhost' || isLoopbackAddress(host);
}

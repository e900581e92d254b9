import {BlockList, isIP} from 'node:net';
import type {DnsAnswer, Resolver} from '../net/dns.ts';
import {isLoopbackAddress} from '../net/ip-address.ts';

/** What SPF says about mail from an address (RFC 7208 §2.6). `permerror` and `temperror` say why. */
type SpfResult =
	| {readonly kind: 'none' | 'neutral' | 'pass' | 'fail' | 'softfail'}
	| {readonly kind: 'permerror' | 'temperror'; readonly why: string};

const results = {'+': 'pass', '-': 'fail', '~': 'softfail', '?': 'neutral'} as const satisfies Record<
	SpfQualifier,
	SpfResult['kind']
>;
const mostLookUps = 10;
const mostVoid = 2;
const mostHosts = 10;

/** Ends an evaluation from within its includes; never leaves this file. */
class SpfEnd extends Error {
	readonly result: SpfResult;
	constructor(kind: 'permerror' | 'temperror', why: string) {
		super(why);
		this.result = {kind, why};
	}
}

/**
 * Whether the domain's SPF record lets an address send (RFC 7208 §4, `check_host`). Terms with macros depend on the mail
 * and match nothing here, nor does `ptr`, which RFC 7208 §5.5 says not to use. What the resolver remembers is not asked
 * again, so that several addresses cost little more than one.
 */
export async function checkSpf(resolver: Resolver, ip: string, domain: string): Promise<SpfResult> {
	const left = {lookUps: mostLookUps, voids: mostVoid};

	function count(): void {
		left.lookUps--;
		if (left.lookUps < 0) {
			throw new SpfEnd('permerror', `it takes more than ${mostLookUps} look-ups`);
		}
	}

	async function answer<T>(asked: Promise<DnsAnswer<T>>, name: string): Promise<readonly T[]> {
		const got = await asked;
		if (got.kind === 'failed') {
			throw new SpfEnd('temperror', `DNS did not answer for ${name} (${got.code})`);
		}
		return got.kind === 'found' ? got.records : [];
	}

	function notVoid<T>(records: readonly T[], name: string): readonly T[] {
		if (records.length === 0) {
			left.voids--;
			if (left.voids < 0) {
				throw new SpfEnd('permerror', `more than ${mostVoid} of its names have no records, ${name} too`);
			}
		}
		return records;
	}

	const addresses = async (host: string) => await answer(isIP(ip) === 4 ? resolver.a(host) : resolver.aaaa(host), host);

	async function recordOf(name: string): Promise<SpfRecord | null> {
		const records = (await answer(resolver.txt(name), name)).filter(isSpf);
		if (records.length > 1) {
			throw new SpfEnd('permerror', `${name} has ${records.length} SPF records, only one may be there`);
		}
		const parsed = records[0] === undefined ? null : parseSpf(records[0]);
		if (parsed?.ok === false) {
			throw new SpfEnd('permerror', `the SPF record of ${name} has a fault: ${parsed.fault}`);
		}
		return parsed?.record ?? null;
	}

	async function evaluate(name: string): Promise<SpfResult['kind']> {
		const record = await recordOf(name);
		if (record === null) {
			return 'none';
		}
		for (const mechanism of record.mechanisms) {
			if (await matches(mechanism, name)) {
				return results[mechanism.qualifier];
			}
		}
		return record.redirect === null ? 'neutral' : await follow(record.redirect);
	}

	async function follow(target: string): Promise<SpfResult['kind']> {
		count();
		const result = target.includes('%') ? 'neutral' : await evaluate(target);
		if (result === 'none') {
			throw new SpfEnd('permerror', `${target}, which it leads to, has no SPF record`);
		}
		return result;
	}

	async function matches({name, target, prefix}: SpfMechanism, domain: string): Promise<boolean> {
		const host = target ?? domain;
		switch (name) {
			case 'all':
				return true;
			case 'ip4':
			case 'ip6':
				return isWithin(ip, host, prefix);
			case 'include':
				return (await follow(host)) === 'pass';
		}
		count();
		if (name === 'ptr' || host.includes('%')) {
			return false;
		}
		if (name === 'exists') {
			return notVoid(await answer(resolver.a(host), host), host).length > 0;
		}
		const hosts =
			name === 'a' ? [host] : notVoid(await answer(resolver.mx(host), host), host).map(({exchange}) => exchange);
		for (const each of hosts.slice(0, mostHosts)) {
			const found = await addresses(each);
			if ((name === 'a' ? notVoid(found, each) : found).some(address => isWithin(ip, address, prefix))) {
				return true;
			}
		}
		return false;
	}

	try {
		return {kind: await evaluate(domain)} as SpfResult;
	} catch (error) {
		if (error instanceof SpfEnd) {
			return error.result;
		}
		throw error;
	}
}

function isWithin(ip: string, network: string, prefix: SpfMechanism['prefix']): boolean {
	const family = isIP(ip);
	if (family === 0 || family !== isIP(network)) {
		return false;
	}
	const list = new BlockList();
	const type = family === 4 ? 'ipv4' : 'ipv6';
	list.addSubnet(network, family === 4 ? prefix.ip4 : prefix.ip6, type);
	return list.check(ip, type);
}

type SpfQualifier = '+' | '-' | '~' | '?';

type SpfMechanism = {
	readonly name: 'all' | 'include' | 'a' | 'mx' | 'ptr' | 'ip4' | 'ip6' | 'exists';
	readonly qualifier: SpfQualifier;
	/** A name, with macros if it has any, or an address for `ip4` and `ip6`; null: the domain itself. */
	readonly target: string | null;
	/** Prefix lengths for IPv4 and IPv6 addresses. */
	readonly prefix: {readonly ip4: number; readonly ip6: number};
};

type SpfRecord = {readonly mechanisms: readonly SpfMechanism[]; readonly redirect: string | null};

type ParsedSpf = {readonly ok: true; readonly record: SpfRecord} | {readonly ok: false; readonly fault: string};

const mechanism =
	/^([-+~?])?(all|include|a|mx|ptr|ip4|ip6|exists)(?::([^/]+|[0-9a-f:.]+))?(?:\/(\d{1,3}))?(?:\/\/(\d{1,3}))?$/i;
const modifier = /^([a-z][\w.-]*)=(.*)$/i;
const longest = 4096;

/** Whether a TXT record is one of SPF (RFC 7208 §4.5). */
export function isSpf(text: string): boolean {
	return /^v=spf1(?: |$)/i.test(text);
}

/** Reads an SPF record (RFC 7208 §12); the fault names the term that is wrong. */
export function parseSpf(text: string): ParsedSpf {
	if (!isSpf(text) || text.length > longest) {
		return {ok: false, fault: 'it is no SPF record'};
	}
	const mechanisms: SpfMechanism[] = [];
	const redirects: string[] = [];
	for (const term of text.split(' ').slice(1)) {
		const [, name, value] = modifier.exec(term) ?? [];
		if (term === '' || name !== undefined) {
			if (name?.toLowerCase() === 'redirect') {
				redirects.push(value as string);
			}
			continue;
		}
		const parsed = parseMechanism(term);
		if (parsed === null) {
			return {ok: false, fault: `"${term}" is not understood`};
		}
		mechanisms.push(parsed);
	}
	if (redirects.length > 1 || redirects[0] === '') {
		return {ok: false, fault: 'redirect= must be there once and name a domain'};
	}
	return {ok: true, record: {mechanisms, redirect: redirects[0] ?? null}};
}

function parseMechanism(term: string): SpfMechanism | null {
	const [, qualifier = '+', spelled = '', target = null, ip4, ip6] = mechanism.exec(term) ?? [];
	const name = spelled.toLowerCase() as SpfMechanism['name'];
	const ofAddress =
		name === 'ip6' ? {ip4: 32, ip6: Number(ip4 ?? 128)} : {ip4: Number(ip4 ?? 32), ip6: Number(ip6 ?? 128)};
	return isSound(name, target, [ip4, ip6], ofAddress)
		? {name, qualifier: qualifier as SpfQualifier, target, prefix: ofAddress}
		: null;
}

function isSound(
	name: SpfMechanism['name'] | '',
	target: string | null,
	[first, second]: readonly [string | undefined, string | undefined],
	prefix: SpfMechanism['prefix'],
): boolean {
	if (prefix.ip4 > 32 || prefix.ip6 > 128) {
		return false;
	}
	const bare = first === undefined && second === undefined;
	switch (name) {
		case '':
			return false;
		case 'all':
			return target === null && bare;
		case 'include':
		case 'exists':
			return target !== null && bare;
		case 'ptr':
			return bare;
		case 'a':
		case 'mx':
			return true;
		case 'ip4':
			return isIP(target ?? '') === 4 && second === undefined;
		case 'ip6':
			return isIP(target ?? '') === 6 && !target?.includes('%') && second === undefined;
	}
}

/** A reserved domain (RFC 2606 §2): it takes the place of what only the smarthost's provider knows. */
export const unknownInclude = 'ask-your-provider.invalid';

type Provider = {
	readonly name: string;
	readonly hosts: RegExp;
	readonly include: string;
	/** It writes a return path of its own into the mail, so that receivers check SPF there. */
	readonly ownReturnPath: boolean;
};

// As their pages on SPF say.
const providers: readonly Provider[] = [
	{
		name: 'Amazon SES',
		hosts: /^email(?:-smtp[\w-]*)?(?:\.[\w-]+)*\.amazonaws\.com$/,
		include: 'amazonses.com',
		ownReturnPath: true,
	},
	{name: 'Mailgun', hosts: /(?:^|\.)mailgun\.(?:org|net)$/, include: 'mailgun.org', ownReturnPath: true},
	{name: 'Postmark', hosts: /(?:^|\.)postmarkapp\.com$/, include: 'spf.mtasv.net', ownReturnPath: true},
	{name: 'SendGrid', hosts: /(?:^|\.)sendgrid\.net$/, include: 'sendgrid.net', ownReturnPath: true},
	{name: 'Brevo', hosts: /(?:^|\.)(?:brevo|sendinblue)\.com$/, include: 'spf.brevo.com', ownReturnPath: true},
	{name: 'Mailjet', hosts: /(?:^|\.)mailjet\.com$/, include: 'spf.mailjet.com', ownReturnPath: true},
	{
		name: 'Google',
		hosts: /(?:^|\.)(?:gmail|google|googlemail)\.com$/,
		include: '_spf.google.com',
		ownReturnPath: false,
	},
	{
		name: 'Microsoft 365',
		hosts: /(?:^|\.)(?:office365|(?:protection\.)?outlook)\.com$/,
		include: 'spf.protection.outlook.com',
		ownReturnPath: false,
	},
];

/**
 * The SPF record for mail that leaves by smarthosts, by name or address, with what a person should know of it; null: nothing.
 * A smarthost that is not known gets a placeholder, one on this machine the machine's name. Nothing is forbidden: from where they
 * send only their operators know.
 */
export function smarthostSpf(
	hosts: readonly string[],
	machine: string,
): {readonly value: string; readonly note: string | null} {
	const terms = new Set<string>();
	const notes = new Set<string>();
	for (const host of hosts) {
		const provider = providers.find(({hosts}) => hosts.test(host.toLowerCase()));
		if (isThisMachine(host)) {
			terms.add(`a:${machine}`);
		} else if (isIP(host) !== 0) {
			terms.add(`${isIP(host) === 6 ? 'ip6' : 'ip4'}:${host}`);
		} else if (provider === undefined) {
			terms.add(`include:${unknownInclude}`);
			notes.add(`ask the provider of ${host} what belongs in the place of include:${unknownInclude}`);
		} else {
			terms.add(`include:${provider.include}`);
			if (provider.ownReturnPath) {
				notes.add(`${provider.name} uses its own return path, set up one below your domain there for SPF to align`);
			}
		}
	}
	return {value: `v=spf1 ${[...terms].join(' ')} ~all`, note: [...notes].join('; ') || null};
}

/** As of a Postfix beside us. */
export function isThisMachine(host: string): boolean {
	return host === 'localhost' || isLoopbackAddress(host);
}

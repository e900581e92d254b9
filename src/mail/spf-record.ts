import {isIP} from 'node:net';

export type SpfQualifier = '+' | '-' | '~' | '?';

export type SpfMechanism = {
	readonly name: 'all' | 'include' | 'a' | 'mx' | 'ptr' | 'ip4' | 'ip6' | 'exists';
	readonly qualifier: SpfQualifier;
	/** A name, with macros if it has any, or an address for `ip4` and `ip6`; null: the domain itself. */
	readonly target: string | null;
	/** Prefix lengths for IPv4 and IPv6 addresses. */
	readonly prefix: {readonly ip4: number; readonly ip6: number};
};

export type SpfRecord = {readonly mechanisms: readonly SpfMechanism[]; readonly redirect: string | null};

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

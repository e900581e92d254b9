import {isIPv4, isIPv6} from 'node:net';
import {type DomainSpec, parseDomainSpec} from './spf-macros.ts';

/** Prefix lengths in bits. If absent, the network is a single address. */
export type Cidr = {readonly v4?: number; readonly v6?: number};

export type Mechanism = {
	readonly qualifier: '+' | '-' | '~' | '?';
	readonly name: 'all' | 'include' | 'a' | 'mx' | 'ptr' | 'ip4' | 'ip6' | 'exists';
	/** `null` stands for the record's own domain. */
	readonly spec: DomainSpec | null;
	/** Only for `ip4` and `ip6`. */
	readonly network: string | null;
	readonly cidr: Cidr;
};

export type SpfRecord = {readonly mechanisms: readonly Mechanism[]; readonly redirect: DomainSpec | null};

/** Parses a record that begins with `v=spf1` (RFC 7208 §12). Returns `null` if it has any error (§4.6). */
export function parseRecord(text: string): SpfRecord | null {
	const mechanisms: Mechanism[] = [];
	const modifiers = new Map<string, DomainSpec>();
	for (const term of text.split(' ').slice(1)) {
		if (term === '') {
			continue;
		}
		const [, modifier, value = ''] = /^([a-z][\w.-]*)=(.*)$/i.exec(term) ?? [];
		if (modifier === undefined) {
			const mechanism = parseMechanism(term);
			if (mechanism === null) {
				return null;
			}
			mechanisms.push(mechanism);
		} else if (!addModifier(modifiers, modifier.toLowerCase(), value)) {
			return null;
		}
	}
	return {mechanisms, redirect: modifiers.get('redirect') ?? null};
}

/** Whether a modifier is allowed. Unknown modifiers are ignored, but their macros must be valid (§6). */
function addModifier(modifiers: Map<string, DomainSpec>, name: string, value: string): boolean {
	if (name !== 'redirect' && name !== 'exp') {
		return parseDomainSpec(`${value}%%`) !== null;
	}
	const spec = parseDomainSpec(value);
	if (spec === null || modifiers.has(name)) {
		return false;
	}
	modifiers.set(name, spec);
	return true;
}

const isName = (name: string): name is Mechanism['name'] => /^(?:all|include|a|mx|ptr|ip4|ip6|exists)$/.test(name);

function parseMechanism(term: string): Mechanism | null {
	const [, qualifier = '', word = '', rest = ''] = /^([+~?-]?)([a-z][\w.-]*)(.*)$/is.exec(term) ?? [];
	const name = word.toLowerCase();
	if (!isName(name)) {
		return null;
	}
	const common = {qualifier: (qualifier || '+') as Mechanism['qualifier'], name};
	if (name === 'all') {
		return rest === '' ? {...common, spec: null, network: null, cidr: {}} : null;
	}
	if (name === 'ip4' || name === 'ip6') {
		return parseNetwork(common, rest);
	}
	const cut = name === 'a' || name === 'mx' ? cutCidr(rest) : {before: rest, cidr: {}};
	if (cut === null || (cut.before === '' && (name === 'include' || name === 'exists'))) {
		return null;
	}
	if (cut.before === '') {
		return {...common, spec: null, network: null, cidr: cut.cidr};
	}
	const spec = cut.before.startsWith(':') ? parseDomainSpec(cut.before.slice(1)) : null;
	return spec && {...common, spec, network: null, cidr: cut.cidr};
}

/** Parses `ip4:192.0.2.0/24` and `ip6:2001:db8::/32`. */
function parseNetwork(common: Pick<Mechanism, 'qualifier' | 'name'>, rest: string): Mechanism | null {
	const [, network = '', bits] = /^:([^/]*)(?:\/(0|[1-9]\d{0,2}))?$/.exec(rest) ?? [];
	const isV4 = common.name === 'ip4';
	const max = isV4 ? 32 : 128;
	const length = bits === undefined ? max : Number(bits);
	// A zone (`%eth0`) means something on one machine only.
	if (length > max || network.includes('%') || !(isV4 ? isIPv4(network) : isIPv6(network))) {
		return null;
	}
	return {...common, spec: null, network, cidr: isV4 ? {v4: length} : {v6: length}};
}

/** Splits off `/24`, `//64` or `/24//64`. Returns `null` if a length exceeds that of an address. */
function cutCidr(text: string): {readonly before: string; readonly cidr: Cidr} | null {
	const match = /(?:\/(0|[1-9]\d?))?(?:\/\/(0|[1-9]\d{0,2}))?$/.exec(text);
	const [, v4, v6] = match ?? [];
	if (Number(v4 ?? 0) > 32 || Number(v6 ?? 0) > 128) {
		return null;
	}
	const cidr = {...(v4 !== undefined && {v4: Number(v4)}), ...(v6 !== undefined && {v6: Number(v6)})};
	return {before: text.slice(0, match?.index), cidr};
}

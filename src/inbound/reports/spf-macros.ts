import ipaddr from 'ipaddr.js';

// SPF macros (RFC 7208 §7). Each step takes time linear in the length of the record or the name.

/** The values of the macros. */
export type MacroValues = {
	/** Local part and domain of MAIL FROM, or `postmaster` and the HELO name for a bounce. */
	readonly local: string;
	readonly senderDomain: string;
	readonly helo: string;
	readonly client: string;
	/** The domain whose record is evaluated. */
	readonly domain: string;
	/** The client's validated name, looked up only if a macro needs it. */
	readonly clientName: () => string;
};

type Macro = {
	readonly letter: string;
	/** How many rightmost parts to keep; 0 means all. */
	readonly keep: number;
	readonly isReversed: boolean;
	readonly delimiters: string;
	/** An upper-case letter means that the value is URL-escaped (§7.3). */
	readonly isEscaped: boolean;
};

/** A parsed `domain-spec`. */
export type DomainSpec = ReadonlyArray<string | Macro>;

const tokens = /%\{([a-z])(\d*)(r?)([.\-+,/_=]*)\}|%[%_-]|%|[^%]+/gi;
const quoted: Readonly<Record<string, string>> = {'%%': '%', '%_': ' ', '%-': '%20'};

/** Returns `null` if the text is not a `domain-spec`. */
export function parseDomainSpec(text: string): DomainSpec | null {
	const spec: Array<string | Macro> = [];
	for (const [token, letter, digits, reverse, delimiters] of text.matchAll(tokens)) {
		if (letter !== undefined) {
			// `c`, `r` and `t` are valid only in explanations (§7.2).
			if (!/[slodiphv]/i.test(letter) || (digits !== '' && Number(digits) === 0)) {
				return null;
			}
			const keep = Number(digits || 0);
			const name = letter.toLowerCase();
			spec.push({
				letter: name,
				keep,
				isReversed: reverse !== '',
				delimiters: delimiters || '.',
				isEscaped: letter !== name,
			});
		} else if (token === '%' || !/^[!-~]+$/.test(token)) {
			return null;
		} else {
			spec.push(quoted[token] ?? token);
		}
	}
	return hasDomainEnd(text) ? spec : null;
}

/** Whether a text ends with a `domain-end`: a macro, or a dot and a top-level label. */
function hasDomainEnd(text: string): boolean {
	if (/(?:\}|%[%_-])$/.test(text)) {
		return true;
	}
	const end = text.endsWith('.') ? text.slice(0, -1) : text;
	const dot = end.lastIndexOf('.');
	const label = end.slice(dot + 1);
	return dot !== -1 && /^[a-z0-9-]+$/i.test(label) && !/^-|-$|^\d+$/.test(label);
}

/** Longer than any name, so whatever follows cannot make the result valid. */
const maxExpansionLength = 512;

/**
 * Returns the name that a `domain-spec` expands to, in lower case and without a trailing dot, cut if it is too long.
 */
export function expandDomainSpec(spec: DomainSpec, values: MacroValues): string {
	let name = '';
	for (const part of spec) {
		name += typeof part === 'string' ? part : expandMacro(part, values);
		if (name.length > maxExpansionLength) {
			break;
		}
	}
	return name.slice(0, maxExpansionLength).replace(/\.$/, '').toLowerCase();
}

function expandMacro({letter, keep, isReversed, delimiters, isEscaped}: Macro, values: MacroValues): string {
	const parts: string[] = [''];
	for (const character of macroValue(letter, values)) {
		if (delimiters.includes(character)) {
			parts.push('');
		} else {
			parts[parts.length - 1] += character;
		}
	}
	const ordered = isReversed ? parts.reverse() : parts;
	const expanded = ordered.slice(-keep).join('.');
	return isEscaped ? expanded.replace(/[^\w.~-]/gu, escaped) : expanded;
}

const escaped = (character: string): string =>
	[...Buffer.from(character)].map(octet => `%${octet.toString(16).padStart(2, '0')}`).join('');

function macroValue(letter: string, values: MacroValues): string {
	switch (letter) {
		case 's':
			return `${values.local}@${values.senderDomain}`;
		case 'l':
			return values.local;
		case 'o':
			return values.senderDomain;
		case 'd':
			return values.domain;
		case 'i':
			return dotted(values.client);
		case 'p':
			return values.clientName();
		case 'v':
			return ipaddr.parse(values.client).kind() === 'ipv6' ? 'ip6' : 'in-addr';
		default:
			return values.helo;
	}
}

/** Returns an IPv6 address as 32 hexadecimal digits separated by dots. */
function dotted(client: string): string {
	const address = ipaddr.parse(client);
	return address instanceof ipaddr.IPv6 ? toNibbles(address).join('.') : address.toString();
}

function toNibbles(address: ipaddr.IPv6): string[] {
	return [...address.parts.map(part => part.toString(16).padStart(4, '0')).join('')];
}

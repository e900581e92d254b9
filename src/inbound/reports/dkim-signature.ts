import {hash, type KeyObject, verify} from 'node:crypto';
import {groupBy} from '../../kit/collections.ts';
import {relaxedHeader} from '../../mail/dkim-canonical.ts';
import {parseTagList, tagParts} from '../../mail/dkim-record.ts';
import {isUnder} from '../../net/host-name.ts';
import {domainName, type RawField} from './raw-header.ts';

// One DKIM-Signature field (RFC 6376 §3.5), with the rules of RFC 8301 and RFC 8463.

export type BodyForm = 'simple' | 'relaxed';

export type Signature = {
	/** In A-labels. */
	readonly domain: string;
	readonly selector: string;
	/** The domain of `i=`: the signing domain or a subdomain of it. */
	readonly identity: string;
	readonly algorithm: 'rsa' | 'ed25519';
	readonly isHeaderRelaxed: boolean;
	readonly bodyForm: BodyForm;
	/** Octets of the body that the signature covers, or `null` for all. */
	readonly bodyLength: number | null;
	readonly bodyHash: string;
	/** Field names in lower case. */
	readonly covered: readonly string[];
	/** Seconds since the epoch, or `null` if the signature does not expire. */
	readonly expires: number | null;
	readonly value: Buffer;
	/** The field itself, which the signature covers except for its own value. */
	readonly line: string;
};

/**
 * `signature` is `null` if it breaks a rule and so cannot count. `domain` is `null` if not even the domain can be read.
 */
export type ParsedSignature = {readonly domain: string | null; readonly signature: Signature | null};

const maxSignatureLength = 4096;
const selectorForm = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/;
const base64Form = /^[A-Za-z0-9+/]+={0,2}$/;
const numberForm = /^\d{1,15}$/;

export function parseSignature({line}: RawField): ParsedSignature {
	const value = line.slice(line.indexOf(':') + 1);
	const tags =
		line.length > maxSignatureLength ? undefined : parseTagList(utf8(value).replaceAll(/[ \t\r\n]+/g, ' '));
	const domain = domainName(tags?.get('d') ?? '') ?? null;
	return {domain, signature: tags && domain !== null ? signatureFrom(tags, domain, line) : null};
}

function signatureFrom(tags: ReadonlyMap<string, string>, domain: string, line: string): Signature | null {
	const tag = (name: string): string => tags.get(name) ?? '';
	const compact = (name: string): string => tag(name).replaceAll(' ', '');
	const identity = tags.has('i') ? domainName(tag('i').slice(tag('i').lastIndexOf('@') + 1)) : domain;
	const [, algorithm] = /^(rsa|ed25519)-sha256$/i.exec(tag('a')) ?? [];
	const [, headerForm, bodyForm = 'simple'] =
		/^(simple|relaxed)(?:\/(simple|relaxed))?$/i.exec(tags.has('c') ? tag('c') : 'simple') ?? [];
	const covered = tagParts(tags.get('h')).map(name => name.toLowerCase());
	const selector = tag('s').toLowerCase();
	if (
		tag('v') !== '1' ||
		algorithm === undefined ||
		headerForm === undefined ||
		identity === undefined ||
		!isUnder(identity, domain) ||
		(tags.has('q') && !tagParts(tags.get('q')).includes('dns/txt')) ||
		// A signature must cover at least the author (§5.4).
		!covered.includes('from') ||
		!selectorForm.test(selector) ||
		!['b', 'bh'].every(name => base64Form.test(compact(name))) ||
		!['l', 'x'].every(name => !tags.has(name) || numberForm.test(tag(name)))
	) {
		return null;
	}
	return {
		domain,
		selector,
		identity,
		covered,
		line,
		algorithm: algorithm.toLowerCase() as Signature['algorithm'],
		isHeaderRelaxed: headerForm.toLowerCase() === 'relaxed',
		bodyForm: bodyForm.toLowerCase() as BodyForm,
		bodyLength: tags.has('l') ? Number(tag('l')) : null,
		bodyHash: compact('bh'),
		expires: tags.has('x') ? Number(tag('x')) : null,
		value: Buffer.from(compact('b'), 'base64'),
	};
}

const utf8 = (octets: string): string => Buffer.from(octets, 'latin1').toString();

/** Whether the key's owner signed these fields. Of several fields with one name, the last is covered first (§5.4.2). */
export function isSignedBy(key: KeyObject, signature: Signature, fields: readonly RawField[]): boolean {
	const data = Buffer.from(signedOctets(signature, fields), 'latin1');
	// RFC 8463 §3: Ed25519 signs the SHA-256 of the data, not the data.
	return signature.algorithm === 'rsa'
		? verify('sha256', data, key, signature.value)
		: verify(null, hash('sha256', data, 'buffer'), key, signature.value);
}

function signedOctets({isHeaderRelaxed, covered, line}: Signature, fields: readonly RawField[]): string {
	const form = (text: string): string => (isHeaderRelaxed ? relaxedHeader(text) : `${text}\r\n`);
	const remaining = groupBy(fields, ({name}) => name);
	const lines = covered.map(name => {
		const field = remaining.get(name)?.pop();
		return field === undefined ? '' : form(field.line);
	});
	const colon = line.indexOf(':') + 1;
	const unsigned = line.slice(0, colon) + line.slice(colon).replace(/((?:^|;)[ \t\r\n]*b[ \t\r\n]*=)[^;]*/, '$1');
	return lines.join('') + form(unsigned).slice(0, -2);
}

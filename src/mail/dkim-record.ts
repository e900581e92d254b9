import {createPublicKey} from 'node:crypto';

const maxLength = 16_384;

/**
 * Parses a tag list of DKIM or DMARC (`v=DKIM1; k=rsa; p=…`, RFC 6376 §3.2) to values by name, in order, trimmed.
 * Returns `undefined` if the text is not a tag list or repeats a name.
 */
export function parseTagList(text: string): ReadonlyMap<string, string> | undefined {
	if (text.length > maxLength) {
		return undefined;
	}
	const tags = new Map<string, string>();
	const parts = text.split(';');
	// The list may end with a semicolon.
	if (parts.length > 1 && parts.at(-1)?.trim() === '') {
		parts.pop();
	}
	for (const part of parts) {
		const [name = '', ...value] = part.split('=');
		const key = name.trim();
		if (!/^[A-Za-z]\w*$/.test(key) || value.length === 0 || tags.has(key)) {
			return undefined;
		}
		tags.set(key, value.join('=').trim());
	}
	return tags;
}

/** Returns the trimmed parts of a value such as `y:s`. */
export function tagParts(value: string | undefined, separator = ':'): string[] {
	return (value ?? '')
		.split(separator)
		.map(part => part.trim())
		.filter(part => part !== '');
}

/** A DKIM record from a selector's TXT record (RFC 6376 §3.6.1). `key` is `null` if the key is revoked. */
type DkimRecord = {
	readonly algorithm: string;
	readonly key: Buffer | null;
	/** The owner is testing DKIM, so some receivers treat the message as unsigned. */
	readonly isTesting: boolean;
	/** The key may not sign for subdomains: a signature's `i=` must have the same domain as its `d=`. */
	readonly isStrict: boolean;
	/** Why the record can never verify a message, or `null`. */
	readonly problem: string | null;
};

/**
 * Parses a DKIM record. Returns `undefined` if the text publishes no key.
 *
 * @param services the acceptable services in `s=`; one of them is enough
 */
export function parseDkimRecord(text: string, services: readonly string[] = ['email']): DkimRecord | undefined {
	const tags = parseTagList(text);
	const [first] = tags?.keys() ?? [];
	const encoded = tags?.get('p')?.replace(/\s+/g, '');
	if (!tags || encoded === undefined) {
		return undefined;
	}
	const algorithm = tags.get('k') ?? 'rsa';
	const flags = tagParts(tags.get('t'));
	const base = {algorithm, isTesting: flags.includes('y'), isStrict: flags.includes('s')};
	if (tags.has('v') && (first !== 'v' || tags.get('v') !== 'DKIM1')) {
		return {...base, key: null, problem: 'its v= is not DKIM1 at the beginning'};
	}
	if (encoded !== '' && !/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) {
		return {...base, key: null, problem: 'its p= is not Base64'};
	}
	return {...base, key: encoded === '' ? null : decodeKey(algorithm, encoded), problem: findProblem(tags, services)};
}

function findProblem(tags: ReadonlyMap<string, string>, acceptedServices: readonly string[]): string | null {
	const hashes = tagParts(tags.get('h'));
	if (hashes.length > 0 && !hashes.includes('sha256')) {
		return 'its h= excludes sha256';
	}
	const services = tagParts(tags.get('s'));
	const isAccepted = services.length === 0 || ['*', ...acceptedServices].some(service => services.includes(service));
	return isAccepted ? null : `its s= excludes ${acceptedServices.join(' and ')}`;
}

// Some domains publish the bare RSAPublicKey that RFC 6376 §3.6.1 names. Verifiers accept both forms.
function decodeKey(algorithm: string, encoded: string): Buffer {
	const bytes = Buffer.from(encoded, 'base64');
	if (algorithm !== 'rsa') {
		return bytes;
	}
	for (const type of ['spki', 'pkcs1'] as const) {
		try {
			return createPublicKey({key: bytes, format: 'der', type}).export({format: 'der', type: 'spki'});
		} catch {
			// Try the next form.
		}
	}
	return bytes;
}

import {createPublicKey} from 'node:crypto';
import {parseTagList, tagParts} from './tag-list.ts';

/** What a TXT record at a selector publishes (RFC 6376 §3.6.1). `p` is null where the key is revoked. */
type DkimRecord = {
	readonly algorithm: string;
	readonly key: Buffer | null;
	/** The owner only tries DKIM out: some receivers treat the mail as unsigned. */
	readonly testing: boolean;
	/** Why it verifies no mail, with any key. */
	readonly fault: string | null;
};

/** Undefined: the text publishes no key. */
export function parseDkimRecord(text: string): DkimRecord | undefined {
	const tags = parseTagList(text);
	const [first] = tags?.keys() ?? [];
	const encoded = tags?.get('p')?.replace(/\s+/g, '');
	if (!tags || encoded === undefined) {
		return undefined;
	}
	const algorithm = tags.get('k') ?? 'rsa';
	const base = {algorithm, testing: tagParts(tags.get('t')).includes('y')};
	if (tags.has('v') && (first !== 'v' || tags.get('v') !== 'DKIM1')) {
		return {...base, key: null, fault: 'its v= is not DKIM1 at the beginning'};
	}
	if (encoded !== '' && !/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) {
		return {...base, key: null, fault: 'its p= is no Base64'};
	}
	return {...base, key: encoded === '' ? null : bytesOf(algorithm, encoded), fault: faultOf(tags)};
}

function faultOf(tags: ReadonlyMap<string, string>): string | null {
	const hashes = tagParts(tags.get('h'));
	if (hashes.length > 0 && !hashes.includes('sha256')) {
		return 'its h= excludes sha256';
	}
	const services = tagParts(tags.get('s'));
	return services.length > 0 && !services.includes('*') && !services.includes('email') ? 'its s= excludes email' : null;
}

// Some publish the bare RSAPublicKey that RFC 6376 §3.6.1 names, and verifiers take both.
function bytesOf(algorithm: string, encoded: string): Buffer {
	const bytes = Buffer.from(encoded, 'base64');
	if (algorithm !== 'rsa') {
		return bytes;
	}
	for (const type of ['spki', 'pkcs1'] as const) {
		try {
			return createPublicKey({key: bytes, format: 'der', type}).export({format: 'der', type: 'spki'});
		} catch {
			// Not of this form.
		}
	}
	return bytes;
}

import {createHash} from 'node:crypto';

/** An Idempotency-Key with what the send it came with is told apart by. */
export type Idempotency = {readonly key: string; readonly fingerprint: string};

/** The part of a send's body that makes it the same send (docs/reference/interface.md, Send request). */
export type Fingerprinted = {
	readonly from: string;
	readonly to: string;
	readonly templateId: string;
	readonly data?: object;
};

/** SHA-256 of the canonical JSON, base64url: the order of names does not matter, the spelling of addresses does. */
export function fingerprintOf({from, to, templateId, data = {}}: Fingerprinted): string {
	return createHash('sha256')
		.update(canonicalJson([from, to, templateId, data]))
		.digest('base64url');
}

/** JSON with the names of objects in order. Takes what JSON.parse made. */
function canonicalJson(value: unknown): string {
	if (typeof value !== 'object' || value === null) {
		return JSON.stringify(value);
	}
	if (Array.isArray(value)) {
		return `[${value.map(canonicalJson).join(',')}]`;
	}
	const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
	return `{${fields.map(([name, item]) => `${JSON.stringify(name)}:${canonicalJson(item)}`).join(',')}}`;
}

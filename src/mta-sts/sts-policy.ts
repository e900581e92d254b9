import {isIP} from 'node:net';

export type StsPolicy = {
	readonly mode: 'enforce' | 'testing' | 'none';
	/** Host names and `*.`-patterns, lower case. */
	readonly mx: readonly string[];
	/** Seconds. */
	readonly maxAge: number;
};

const field = /^([a-zA-Z0-9][a-zA-Z0-9_.-]{0,31}):(.*)$/;
const modes: ReadonlyMap<string, StsPolicy['mode']> = new Map([
	['enforce', 'enforce'],
	['testing', 'testing'],
	['none', 'none'],
]);
const mxPattern = /^(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const longestAge = 31_557_600;
/** Each delivery carries the policy. */
const mostPatterns = 100;

/**
 * Reads a policy (RFC 8461 §3.2), or says what is wrong with it. Unknown fields are ignored, and so is a line that is no field
 * and an `mx` that is no host name: with a typo in one line the domain still demands TLS of the hosts in the others.
 */
export function parsePolicy(text: string): StsPolicy | {readonly fault: string} {
	const first = new Map<string, string>();
	const mx: string[] = [];
	for (const line of text.split(/\r?\n/)) {
		const [, name = '', rest = ''] = field.exec(line) ?? [];
		const value = rest.trim();
		if (name === 'mx') {
			const pattern = value.toLowerCase().replace(/\.$/, '');
			if (mxPattern.test(pattern) && pattern.length <= 253 && isIP(pattern) === 0) {
				mx.push(pattern);
			}
		} else if (!first.has(name)) {
			first.set(name, value);
		}
	}

	const mode = modes.get(first.get('mode') ?? '');
	const age = first.get('max_age') ?? '';
	if (first.get('version') !== 'STSv1') {
		return {fault: 'its version is not STSv1'};
	}

	if (mode === undefined) {
		return {fault: 'its mode is not one of enforce, testing, none'};
	}

	if (!/^\d{1,10}$/.test(age)) {
		return {fault: 'its max_age is no number of seconds'};
	}

	if (mx.length > mostPatterns) {
		return {fault: `it names more than ${mostPatterns} hosts`};
	}

	return mx.length === 0 && mode !== 'none'
		? {fault: 'it names no mx that is a host name'}
		: {mode, mx, maxAge: Math.min(Number(age), longestAge)};
}

const record = /^v=STSv1[ \t]*;(.*)$/s;
const recordField = /^[ \t]*([a-zA-Z0-9][a-zA-Z0-9_.-]{0,31})=([\x21-\x3a\x3c\x3e-\x7e]+)[ \t]*$/;
const policyId = /^[a-zA-Z0-9]{1,32}$/;

/**
 * The id of the policy that the TXT records of `_mta-sts.<domain>` announce (RFC 8461 §3.1). Null: none, two such
 * records, or one that is not well formed.
 */
export function announcedId(texts: readonly string[]): string | null {
	const found = texts.flatMap(text => record.exec(text)?.[1] ?? []);
	const [fields] = found;
	if (fields === undefined || found.length > 1) {
		return null;
	}

	const parts = fields.split(';');
	if (/^[ \t]*$/.test(parts.at(-1) ?? '')) {
		parts.pop();
	}

	let id: string | null = null;
	for (const part of parts) {
		const [, name, value = ''] = recordField.exec(part) ?? [];
		if (name === undefined) {
			return null;
		}

		if (name === 'id') {
			id ??= value;
		}
	}

	return id !== null && policyId.test(id) ? id : null;
}

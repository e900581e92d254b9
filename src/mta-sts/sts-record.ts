const record = /^v=STSv1[ \t]*;(.*)$/s;
const field = /^[ \t]*([a-zA-Z0-9][a-zA-Z0-9_.-]{0,31})=([\x21-\x3a\x3c\x3e-\x7e]+)[ \t]*$/;
const policyId = /^[a-zA-Z0-9]{1,32}$/;

/**
 * The id of the policy that the TXT records of `_mta-sts.<domain>` announce (RFC 8461 §3.1); null: they announce none.
 * Two such records, or one that is not well formed, are none.
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
		const [, name, value = ''] = field.exec(part) ?? [];
		if (name === undefined) {
			return null;
		}

		if (name === 'id') {
			id ??= value;
		}
	}

	return id !== null && policyId.test(id) ? id : null;
}

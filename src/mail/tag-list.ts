const longest = 16_384;

/**
 * A tag list of DKIM or DMARC (`v=DKIM1; k=rsa; p=…`, RFC 6376 §3.2): values by name, names as they are spelled, in
 * order, without spaces and line ends around both. Undefined: not a tag list, or a name is repeated.
 */
export function parseTagList(text: string): ReadonlyMap<string, string> | undefined {
	if (text.length > longest) {
		return undefined;
	}
	const tags = new Map<string, string>();
	const parts = text.split(';');
	// A semicolon may end the list.
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

/** The parts of a value such as `y:s`, spaces taken away. */
export function tagParts(value: string | undefined, separator = ':'): string[] {
	return (value ?? '')
		.split(separator)
		.map(part => part.trim())
		.filter(part => part !== '');
}

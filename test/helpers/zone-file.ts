export type ZoneRecord = {
	readonly name: string;
	readonly ttl: number;
	readonly type: string;
	/** Words and strings of the data, strings without their quotes. */
	readonly data: readonly string[];
};

type Token = {readonly text: string; readonly quoted: boolean};

/** Reads lines of a zone file (RFC 1035 §5.1) as far as one needs that has absolute names and no directives. */
export function parseZone(text: string): ZoneRecord[] {
	return text
		.split('\n')
		.map(tokensOf)
		.filter(tokens => tokens.length > 0)
		.map(([owner, ttl, kind, type, ...data]) => {
			if (
				!owner?.text.endsWith('.') ||
				!/^\d+$/.test(ttl?.text ?? '') ||
				kind?.text !== 'IN' ||
				type === undefined
			) {
				throw new Error(`no record: ${owner?.text}`);
			}
			if (data.some(({text}) => Buffer.byteLength(text) > 255)) {
				throw new Error(`a string of ${owner.text} is too long`);
			}
			return {
				name: owner.text.slice(0, -1),
				ttl: Number(ttl?.text),
				type: type.text,
				data: data.map(token => token.text),
			};
		});
}

function tokensOf(line: string): Token[] {
	const tokens: Token[] = [];
	let at = 0;
	while (at < line.length) {
		if (line[at] === ';') {
			break;
		}
		if (/\s/.test(line[at] as string)) {
			at++;
			continue;
		}
		const quoted = line[at] === '"';
		let text = '';
		for (
			at += quoted ? 1 : 0;
			at < line.length && (quoted ? line[at] !== '"' : !/[\s;]/.test(line[at] as string));
			at++
		) {
			if (line[at] === '\\') {
				at++;
			}
			text += line[at] ?? '';
		}
		if (quoted && line[at] !== '"') {
			throw new Error(`a string does not end: ${line}`);
		}
		at += quoted ? 1 : 0;
		tokens.push({text, quoted});
	}
	return tokens;
}

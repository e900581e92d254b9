const entities: Readonly<Record<string, string>> = {
	amp: '&',
	lt: '<',
	gt: '>',
	quot: '"',
	apos: "'",
	nbsp: ' ',
	'#39': "'",
};
const breaks = /^\/?(?:br|p|div|tr|li|ul|ol|table|h[1-6]|hr|pre|blockquote)$/;
const cell = /^\/?t[dh]$/;
const hidden = /^(?:style|script|head|title)$/;

/** What a reader sees of HTML, a line per block. One pass, so that no markup costs more than its length. */
export function stripHtml(html: string): string {
	let text = '';
	let at = 0;
	const unclosed = new Set<string>();
	while (at < html.length) {
		const open = html.indexOf('<', at);
		text += html.slice(at, open === -1 ? html.length : open);
		if (open === -1) {
			break;
		}
		const name = /^\/?[a-z!][a-z0-9-]*/i.exec(html.slice(open + 1, open + 32))?.[0].toLowerCase();
		if (name === undefined) {
			text += '<';
			at = open + 1;
			continue;
		}
		const close =
			name.startsWith('!') && html.startsWith('<!--', open) ? html.indexOf('-->', open) + 2 : html.indexOf('>', open);
		at = close < open ? html.length : close + 1;
		if (hidden.test(name) && !unclosed.has(name)) {
			const end = html.indexOf(`</${html.slice(open + 1, open + 1 + name.length)}`, at);
			at = end === -1 ? at : end;
			if (end === -1) {
				unclosed.add(name);
			}
		} else if (breaks.test(name)) {
			text += '\n';
		} else if (cell.test(name)) {
			text += ' ';
		}
	}
	return text.replace(
		/&(#?\w{1,8});/g,
		(whole, name: string) => entities[name.toLowerCase()] ?? codePoint(name) ?? whole,
	);
}

function codePoint(name: string): string | null {
	const number = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number.parseInt(name.slice(1), 10);
	return name.startsWith('#') && number > 8 && number < 0x11_0000 ? String.fromCodePoint(number) : null;
}

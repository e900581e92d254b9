// What a terminal would act on, and what makes text read otherwise than it is stored: addresses, names and the replies of
// foreign servers are printed too.
const unsafe = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu;

/** The text with control, direction and invisible characters as `\x1b` or `\u202e`. */
export function printable(text: string): string {
	return text.replace(unsafe, escaped);
}

// Line ends and tabs are meant, and so are the colours that we give.
const obeyed = /(?!\u001b\[\d{1,2}m|[\t\n])\p{Cc}/gu;

/** Lines for a terminal: what it would obey is as `printable` writes it, whatever name or text brought it along. */
export function harmless(lines: string): string {
	return lines.replace(obeyed, escaped);
}

function escaped(character: string): string {
	const code = character.codePointAt(0) ?? 0;
	const hex = code.toString(16);
	return code < 0x100 ? `\\x${hex.padStart(2, '0')}` : code > 0xffff ? `\\u{${hex}}` : `\\u${hex}`;
}

// East Asian wide characters and emoji take two columns, combining marks none.
const wide =
	/[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const zero = /\p{M}/u;

/** How many columns of a terminal the text takes. */
export function widthOf(text: string): number {
	let columns = 0;
	for (const character of text) {
		columns += zero.test(character) ? 0 : wide.test(character) ? 2 : 1;
	}
	return columns;
}

/** The text cut to so many columns, with an ellipsis where something is missing. */
export function cut(text: string, width: number): string {
	if (widthOf(text) <= width) {
		return text;
	}
	let kept = '';
	let columns = 0;
	for (const character of text) {
		columns += widthOf(character);
		if (columns > width - 1) {
			break;
		}
		kept += character;
	}
	return `${kept}…`;
}

/** A stored time for people: `2026-06-09 10:15:30`, UTC. */
export function shortTime(stored: string | null): string {
	return stored === null ? '–' : stored.slice(0, 19).replace('T', ' ');
}

/** When a copy that waits is tried: `next try` where that is ahead, `due since` where something else keeps it. */
export function nextTry(stored: string, now: number): string {
	return `${Date.parse(stored) > now ? 'next try' : 'due since'} ${shortTime(stored)} UTC`;
}

/** How long ago or ahead, in the two largest units: `4d 3h`, `90s`. */
export function duration(milliseconds: number): string {
	const seconds = Math.max(0, Math.round(milliseconds / 1000));
	const [days, hours, minutes] = [
		Math.floor(seconds / 86_400),
		Math.floor(seconds / 3600) % 24,
		Math.floor(seconds / 60) % 60,
	];
	if (days > 0) {
		return `${days}d ${hours}h`;
	}
	if (hours > 0) {
		return `${hours}h ${minutes}m`;
	}
	return minutes > 0 ? `${minutes}m ${seconds % 60}s` : `${seconds}s`;
}

/** 1000000 as `1,000,000`. */
export function grouped(count: number): string {
	return count.toLocaleString('en');
}

/** The text in lines of at most so many columns, indent included, broken at spaces; a word that is longer stands alone. */
export function wrapped(text: string, width: number, indent = ''): string[] {
	const lines: string[] = [];
	let line = '';
	for (const word of text.split(' ')) {
		const longer = line === '' ? word : `${line} ${word}`;
		if (line !== '' && widthOf(indent + longer) > width) {
			lines.push(indent + line);
			line = word;
		} else {
			line = longer;
		}
	}
	return [...lines, indent + line];
}

/** The same of what strangers wrote, where a word may be longer than a line: it is broken, not to be copied from here. */
export function folded(text: string, width: number, indent = ''): string[] {
	return wrapped(broken(text, Math.max(1, width - widthOf(indent))), width, indent);
}

function broken(text: string, width: number): string {
	return text
		.split(' ')
		.map(word => {
			let columns = 0;
			let pieces = '';
			for (const character of word) {
				columns += widthOf(character);
				if (columns > width) {
					pieces += ' ';
					columns = widthOf(character);
				}
				pieces += character;
			}
			return pieces;
		})
		.join(' ');
}

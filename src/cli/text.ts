import {eastAsianWidth} from 'get-east-asian-width';

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

// What a terminal shows in one place: a flag, or a character with its skin tone and the marks on it.
const places = /\p{Regional_Indicator}{2}|(?:\p{Emoji_Modifier_Base}\p{Emoji_Modifier}|.)[\p{Mn}\p{Me}]*/gsu;
// Letters of one column each, nearly all that is printed.
const plain = /^[\x20-\x7e\xa0-\u024f]*$/;
const mark = /^[\p{Mn}\p{Me}]/u;
/** Two columns, whatever the first character has alone: flags, and what a variation selector makes an emoji. */
const pair = /^(?:\p{Regional_Indicator}{2}|\p{Emoji}\ufe0f)/u;

function placesOf(text: string): readonly string[] {
	return text.match(places) ?? [];
}

function columnsOf(place: string): number {
	return pair.test(place) ? 2 : mark.test(place) ? 0 : eastAsianWidth(place.codePointAt(0) as number);
}

/** How many columns of a terminal the text takes. */
export function widthOf(text: string): number {
	return plain.test(text) ? text.length : placesOf(text).reduce((sum, place) => sum + columnsOf(place), 0);
}

/** The text cut to so many columns, with an ellipsis where something is missing. */
export function cut(text: string, width: number): string {
	if (widthOf(text) <= width) {
		return text;
	}
	if (plain.test(text)) {
		return `${text.slice(0, Math.max(0, width - 1))}…`;
	}
	let kept = '';
	let columns = 0;
	for (const place of placesOf(text)) {
		columns += columnsOf(place);
		if (columns > width - 1) {
			break;
		}
		kept += place;
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
			for (const place of placesOf(word)) {
				columns += columnsOf(place);
				if (columns > width) {
					pieces += ' ';
					columns = columnsOf(place);
				}
				pieces += place;
			}
			return pieces;
		})
		.join(' ');
}

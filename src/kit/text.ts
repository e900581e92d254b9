/**
 * Characters that no log, terminal or page shows as they are, for use between the brackets of a regular expression with
 * the flag `u`: controls, direction marks and invisible characters, halves of characters, line and paragraph
 * separators. Every text that a foreign host wrote is freed of them before it is stored or printed.
 */
export const unprintable = String.raw`\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}`;

/**
 * The ones of them that no name may hold, for the same use. Names that people choose keep the other invisible
 * characters: some scripts and many emoji are joined by them.
 */
export const badInNames = String.raw`\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069`;

// Some readers also end a line at U+0085, U+2028 and U+2029. What a sender wrote keeps its direction marks.
const controls = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

/** Folds every control to a space: no value can end its header field (R1.20). */
export function withoutControls(text: string): string {
	return text.replace(controls, ' ');
}

// Controls would break lines of logs and tables; what turns the direction of writing makes one name look like another.
const blocked = new RegExp(`[${badInNames}\\ufeff]`, 'u');

/**
 * What is wrong with a name that people give to a thing (a clause for people), or null: 1 to 200 characters on one
 * line.
 */
export function labelFault(text: string, longest = 200): string | null {
	if (text.trim() !== text || text === '' || text.length > 2 * longest || [...text].length > longest) {
		return `must have 1 to ${longest} characters and no space at its ends`;
	}
	return blocked.test(text) ? 'must not have control or direction characters' : null;
}

/** What a template says in every mail: the same object each time, so that what is made of it can be kept. */
export type Constant = {readonly text: string};

/** A text, in pieces. */
export type Pieces = ReadonlyArray<string | Constant>;

const shortest = 64;
const halfPair = /^[\udc00-\udfff]|[\ud800-\udbff]$/;

/**
 * The text as a constant where keeping pays, else as it is. A constant never holds half of a surrogate pair at its
 * ends.
 */
export function constantOf(text: string): string | Constant {
	return text.length < shortest || halfPair.test(text) ? text : {text};
}

/** At most so many of its characters, and never half of a surrogate pair at its end. */
export const cutText = (text: string, longest: number): string =>
	text.slice(0, longest).replace(text.length > longest ? /[\ud800-\udbff]$/ : '', '');

export function joined(pieces: Pieces): string {
	return pieces.map(piece => (typeof piece === 'string' ? piece : piece.text)).join('');
}

/** The same memory as a Buffer: what another thread or a store hands over is a plain Uint8Array. */
export function bufferOf({buffer, byteOffset, byteLength}: Uint8Array): Buffer {
	return Buffer.from(buffer, byteOffset, byteLength);
}

/** UTF-8 without the byte order mark that editors put before it. */
export function utf8Text(bytes: Uint8Array): string {
	return new TextDecoder().decode(bytes);
}

/** The word that is closest to `text` by edits (Levenshtein), if a third of it or less differs. */
export function nearest(text: string, words: readonly string[]): string | undefined {
	let best: string | undefined;
	let fewest = Math.floor(text.length / 3) + 1;
	for (const word of words) {
		const edits = distance(text, word);
		if (edits < fewest) {
			best = word;
			fewest = edits;
		}
	}

	return best;
}

function distance(left: string, right: string): number {
	let row = Array.from({length: right.length + 1}, (_, index) => index);
	for (const [i, letter] of [...left].entries()) {
		const next = [i + 1];
		for (let j = 0; j < right.length; j++) {
			const replaced = (row[j] ?? 0) + (letter === right[j] ? 0 : 1);
			next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
		}

		row = next;
	}

	return row[right.length] ?? 0;
}

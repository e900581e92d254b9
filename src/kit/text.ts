/**
 * Characters that must not appear as they are in a log, terminal or page: controls, direction marks, invisible
 * characters, lone surrogates, line and paragraph separators. For a character class of a regular expression with the
 * `u` flag. They are removed from all text of remote origin before it is stored or printed.
 */
export const unprintable = String.raw`\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}`;

/**
 * The subset that must not appear in names, for the same use. Names may contain the other invisible characters, because
 * some scripts and many emoji need them.
 */
export const badInNames = String.raw`\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069`;

// Some parsers also end a line at U+0085, U+2028 and U+2029. Direction marks in a sender's text are preserved.
const controls = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

/** Replaces runs of controls with a space, so that no value can end its header field (R1.20). */
export function withoutControls(text: string): string {
	return text.replace(controls, ' ');
}

// Controls would break lines of logs and tables. Direction changes make one name look like another.
const blocked = new RegExp(`[${badInNames}\\ufeff]`, 'u');

/**
 * Returns the problem with a name chosen by a user, as a clause, or `null`. A name has 1 to 200 characters on one line.
 */
export function labelProblem(text: string, maxLength = 200): string | null {
	if (text.trim() !== text || text === '' || text.length > 2 * maxLength || [...text].length > maxLength) {
		return `must have 1 to ${maxLength} characters and no leading or trailing spaces`;
	}
	return blocked.test(text) ? 'must not have control or direction characters' : null;
}

/** A text that is the same in every message of a template. It is always the same object, so results can be cached. */
export type Constant = {readonly text: string};

/** A text in pieces. */
export type Pieces = ReadonlyArray<string | Constant>;

const minLength = 64;
const halfPair = /^[\udc00-\udfff]|[\ud800-\udbff]$/;

/**
 * Returns the text as a constant if caching is worthwhile, or unchanged. A constant never starts or ends with half of a
 * surrogate pair.
 */
export function encodeConstant(text: string): string | Constant {
	return text.length < minLength || halfPair.test(text) ? text : {text};
}

/** Cuts a text to at most `maxLength` UTF-16 units, without splitting a surrogate pair. */
export const cutText = (text: string, maxLength: number): string =>
	text.slice(0, maxLength).replace(text.length > maxLength ? /[\ud800-\udbff]$/ : '', '');

export function joined(pieces: Pieces): string {
	return pieces.map(piece => (typeof piece === 'string' ? piece : piece.text)).join('');
}

/** Returns a Buffer that shares the memory. Other threads and the store provide plain Uint8Arrays. */
export function toBuffer({buffer, byteOffset, byteLength}: Uint8Array): Buffer {
	return Buffer.from(buffer, byteOffset, byteLength);
}

/** Decodes UTF-8, without the byte order mark that some editors insert. */
export function utf8Text(bytes: Uint8Array): string {
	return new TextDecoder().decode(bytes);
}

/** Returns the word closest to `text` by edit distance (Levenshtein), if at most a third of the text differs. */
export function nearest(text: string, words: readonly string[]): string | undefined {
	let best: string | undefined;
	let fewestEdits = Math.floor(text.length / 3) + 1;
	for (const word of words) {
		const edits = distance(text, word);
		if (edits < fewestEdits) {
			best = word;
			fewestEdits = edits;
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

/** Converts `replyTo` to `reply_to`. */
export const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);

import {isUtf8} from 'node:buffer';
import {parseDomain} from '../mail/address.ts';
import {isGoodLine, maxLineLength, type SourceField} from '../mail/source.ts';
import {extendedParameter} from './body-writer.ts';
import {encodedWords} from './header-field.ts';

type RepairedField =
	| {readonly ok: true; readonly line: string}
	/** A clause that says what is wrong with which field, and how to fix it. */
	| {readonly ok: false; readonly problem: string};

const mailboxFields =
	/^(?:(?:resent-)?(?:from|sender|to|cc|bcc)|reply-to|errors-to|disposition-notification-to|list-id)$/;
const parameterFields = /^content-(?:type|disposition)$/;
const linkFields = /^list-/;
const tokenFields =
	/^(?:(?:resent-)?(?:date|message-id)|in-reply-to|references|mime-version|content-(?:transfer-encoding|id)|received|return-path)$/;

const nonAscii = /[^\t\x20-\x7e]/;
const defaultLine = 76;
/** A longer run of blanks is reduced to one blank, because no line may consist of blanks alone. */
const maxBlanks = 60;

/**
 * Repairs a field with non-ASCII octets or a line of more than 998 (RFC 6409 §8): encodes its text (RFC 2047, RFC 2231)
 * and folds it. Other fields are unchanged. `line` contains octets as latin1.
 */
export function repairField({name, line}: SourceField): RepairedField {
	if (isGoodLine(line)) {
		return {ok: true, line};
	}
	const octets = Buffer.from(line, 'latin1');
	const colon = line.indexOf(':');
	const originalName = line.slice(0, colon).trim();
	const problem = (text: string): RepairedField => ({ok: false, problem: `the ${originalName} field has ${text}`});
	if (!isUtf8(octets)) {
		return problem('octets that are neither ASCII nor UTF-8: encode them (RFC 2047)');
	}
	const value = octets.toString('utf8', colon + 1).replaceAll('\r\n', '');
	if (/[^\P{Cc}\t]/u.test(value)) {
		return problem('a control character: remove it');
	}
	const encoded = encodeValue(name, value);
	if (encoded === null) {
		return problem(`characters that are not ASCII${remedyFor(name)}`);
	}
	const folded = foldField(originalName, encoded, name);
	return folded === null
		? problem(`a word of more than ${maxLineLength} octets, which cannot be folded: shorten it`)
		: {ok: true, line: folded};
}

function remedyFor(name: string): string {
	if (mailboxFields.test(name)) {
		return ' in an address or beside it: only a name before an address can be encoded';
	}
	return linkFields.test(name) ? ': percent-encode them (RFC 3986)' : ', and may not be encoded: write it in ASCII';
}

/** Returns the encoded value, or `null` if the field has non-ASCII characters where none are allowed. */
function encodeValue(name: string, value: string): string | null {
	if (!isStructured(name)) {
		return encodeText(value, word => nonAscii.test(word) || word.length >= maxLineLength);
	}
	if (!nonAscii.test(value)) {
		return value;
	}
	if (mailboxFields.test(name)) {
		return encodeMailboxes(value);
	}
	return parameterFields.test(name) ? encodeParameters(value) : null;
}

function isStructured(name: string): boolean {
	return mailboxFields.test(name) || parameterFields.test(name) || linkFields.test(name) || tokenFields.test(name);
}

const encodedWord = /^=\?[^?\s]+\?[bq]\?[^?\s]*\?=$/i;

/** Encodes words, all by default. Blanks between encoded words, which readers drop (RFC 2047 §6.2), are encoded too. */
function encodeText(text: string, shouldEncode: (word: string) => boolean = () => true): string {
	const [blanks, words] = [text.match(/[\t ]+/g) ?? [], text.split(/[\t ]+/)];
	const blanksBefore = (index: number) => (index === 0 ? '' : (blanks[index - 1] as string));
	const isChosen = words.map(word => word !== '' && shouldEncode(word) && !encodedWord.test(word));
	let encoded = '';
	for (let index = 0; index < words.length; index++) {
		const word = words[index] as string;
		if (!isChosen[index]) {
			encoded += blanksBefore(index) + word;
			continue;
		}
		const isAfterEncodedWord = index > 0 && encodedWord.test(words[index - 1] as string);
		let run = (isAfterEncodedWord ? blanksBefore(index) : '') + word;
		encoded += blanksBefore(index);
		while (isChosen[index + 1]) {
			index++;
			run += blanksBefore(index) + words[index];
		}
		run += encodedWord.test(words[index + 1] ?? '') ? blanksBefore(index + 1) : '';
		encoded += encodedWords(run).join(' ');
	}
	return encoded;
}

type Piece = {readonly kind: 'text' | 'quoted' | 'comment' | 'angle' | 'mark'; readonly raw: string};

/** Encodes display names and comments in a list of mailboxes (RFC 5322 §3.4), and converts domains to ASCII. */
function encodeMailboxes(value: string): string | null {
	const pieces = parsePieces(value);
	if (pieces === null) {
		return null;
	}
	let encoded = '';
	let phrase: Piece[] = [];
	for (const piece of [...pieces, {kind: 'mark', raw: ''} as const]) {
		if (piece.kind === 'text' || piece.kind === 'quoted') {
			phrase.push(piece);
			continue;
		}
		const before = phrase.map(({raw}) => raw).join('');
		const isName = piece.kind === 'angle' || piece.raw === ':' || !before.includes('@');
		const encodedPhrase = !nonAscii.test(before) ? before : isName ? encodeName(phrase) : toAsciiAddress(before);
		const encodedPiece = !nonAscii.test(piece.raw)
			? piece.raw
			: piece.kind === 'comment'
				? encodeComment(piece.raw)
				: toAsciiAddress(piece.raw);
		if (encodedPhrase === null || encodedPiece === null) {
			return null;
		}
		encoded += encodedPhrase + encodedPiece;
		phrase = [];
	}
	return encoded;
}

function encodeName(phrase: readonly Piece[]): string {
	const text = phrase
		.map(({kind, raw}) => (kind === 'quoted' ? raw.slice(1, -1).replace(/\\(.)/gsu, '$1') : raw))
		.join('');
	// A regular expression would rescan long runs of blanks.
	const isBlank = (index: number) => text[index] === ' ' || text[index] === '\t';
	let [start, end] = [0, text.length];
	while (start < end && isBlank(start)) {
		start++;
	}
	while (end > start && isBlank(end - 1)) {
		end--;
	}
	return text.slice(0, start) + encodeText(text.slice(start, end)) + (text.slice(end) || ' ');
}

function encodeComment(raw: string): string {
	return raw.replace(/(?:\\.|[^()\\])+/gsu, text =>
		nonAscii.test(text) ? encodeText(text.replace(/\\(.)/gsu, '$1')) : text,
	);
}

/** Returns `null` unless the text is an address with an ASCII local part. */
function toAsciiAddress(raw: string): string | null {
	const [, before = '', local = '', domain = '', after = ''] =
		/^([\t ]*<?)([!-;=?A-~]+)@([^\s<>@]+)(>?[\t ]*)$/u.exec(raw) ?? [];
	const ascii = parseDomain(domain);
	return ascii === null ? null : `${before}${local}@${ascii}${after}`;
}

/** Sufficient for the longest list of names and addresses. Each piece takes a microsecond. */
const maxPieces = 60_000;

/** Returns `null` if a quoted string, comment or angle address is not closed, or there are too many pieces. */
function parsePieces(value: string): Piece[] | null {
	const pieces: Piece[] = [];
	for (let position = 0; position < value.length; ) {
		const kind = pieceKind(value[position] as string);
		const end = kind === 'mark' ? position + 1 : pieceEnd(kind, value, position);
		if (end === -1 || pieces.length === maxPieces) {
			return null;
		}
		pieces.push({kind, raw: value.slice(position, end)});
		position = end;
	}
	return pieces;
}

function pieceKind(character: string): Piece['kind'] {
	switch (character) {
		case '"':
			return 'quoted';
		case '(':
			return 'comment';
		case '<':
			return 'angle';
		case ',':
		case ';':
		case ':':
			return 'mark';
		default:
			return 'text';
	}
}

function pieceEnd(kind: Piece['kind'], value: string, start: number): number {
	let depth = 0;
	for (let index = start + (kind === 'comment' ? 0 : 1); index < value.length; index++) {
		const character = value[index] as string;
		if (kind === 'text' && pieceKind(character) !== 'text') {
			return index;
		}
		if (character === '\\' && kind !== 'text') {
			index++;
		} else if (kind === 'comment') {
			depth += character === '(' ? 1 : character === ')' ? -1 : 0;
			if (depth === 0) {
				return index + 1;
			}
		} else if (character === (kind === 'quoted' ? '"' : kind === 'angle' ? '>' : null)) {
			return index + 1;
		}
	}
	return kind === 'text' ? value.length : -1;
}

const parameter = /^([\t ]*)([!-)+-<>-~]+)(\*?)[\t ]*=[\t ]*(?:"((?:\\.|[^"\\])*)"|([^\s"]+))[\t ]*$/su;

/** Returns `null` if the characters are outside of a parameter, or in the boundary, which the body repeats verbatim. */
function encodeParameters(value: string): string | null {
	const written: string[] = [];
	for (const segment of splitOutside(value, ';')) {
		const [, blank = '', name = '', extended = '', quoted, plain = ''] = parameter.exec(segment) ?? [];
		if (!nonAscii.test(segment)) {
			written.push(segment);
		} else if (name === '' || name.toLowerCase() === 'boundary') {
			return null;
		} else if (extended !== '') {
			written.push(segment.replace(/[^\t\x20-\x7e]+/gu, encodeURIComponent));
		} else {
			const text = quoted === undefined ? plain : quoted.replace(/\\(.)/gsu, '$1');
			written.push(...extendedParameter(name, text).map(part => `${blank || ' '}${part}`));
		}
	}
	return written.join(';');
}

/** Splits a text at each `mark` outside of quotes. */
function splitOutside(text: string, mark: string): string[] {
	const parts = [''];
	for (const [piece] of text.matchAll(/"(?:\\.|[^"\\])*"?|[^"]/gsu)) {
		if (piece === mark) {
			parts.push('');
		} else {
			parts[parts.length - 1] += piece;
		}
	}
	return parts;
}

/** Folds a field at its blanks. Returns `null` if a word is too long for a line and cannot be shortened. */
function foldField(originalName: string, value: string, name: string): string | null {
	const lines = [`${originalName}:`];
	// A regular expression would rescan a long run of blanks at the end.
	const words = value.trimEnd().match(/[\t ]*[^\t ]+/g) ?? [];
	for (const [index, word] of (isStructured(name) ? words.flatMap(splitLongWord) : words).entries()) {
		const blanks = word.length - word.trimStart().length;
		const part = blanks === 0 || blanks > maxBlanks ? ` ${word.trimStart()}` : word;
		const last = lines.at(-1) as string;
		// Keep the first word beside the name if possible: some readers treat a field whose first line has no word as
		// empty. Some also reduce several blanks at the start of a line to one.
		if (last.length + part.length > (index === 0 || blanks > 1 ? maxLineLength : defaultLine)) {
			lines.push(part);
		} else {
			lines[lines.length - 1] = last + part;
		}
	}
	return lines.every(line => line.length <= maxLineLength) ? lines.join('\r\n') : null;
}

/** Splits a word that is too long for a line. Blanks may follow list marks, and stand between addresses. */
function splitLongWord(word: string): string[] {
	if (word.length < maxLineLength) {
		return [word];
	}
	// An unclosed quote takes the rest, so that it is not searched again at each of its marks.
	const parts = word.match(/(?:"(?:\\.?|[^"\\])*(?:"|$)|<[^<>]*>|[^",;<])+[,;]*|[,;<]/gs) ?? [word];
	return parts.flatMap(part => part.split(/(?<=>)(?=<)/)).map((part, index) => (index === 0 ? part : ` ${part}`));
}

import {isUtf8} from 'node:buffer';

export type TransferEncoding = 'base64' | 'quoted-printable';

/** Decodes a transfer encoding (RFC 2045 §6) to at most `max` octets. An unknown encoding counts as none. */
export function decodeBody(body: Buffer, encoding: TransferEncoding | null, max: number): Buffer {
	switch (encoding) {
		case 'base64':
			return decodeBase64(body.subarray(0, 2 * max)).subarray(0, max);
		case 'quoted-printable':
			return decodeQuotedPrintable(body.subarray(0, 3 * max)).subarray(0, max);
		default:
			return body.subarray(0, max);
	}
}

/** Returns the charset that an HTML document declares, or `undefined`. */
export function charsetOfHtml(html: Buffer): string | undefined {
	const head = html.toString('latin1', 0, charsetSearchLength);
	return /<meta[^>]{0,500}\bcharset\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:-]{1,40})/i.exec(head)?.[1];
}

// Browsers look at the first 1,024 octets, but mail programs put their styles first.
const charsetSearchLength = 8192;

/** Whether the charset declared for a part is known, is not the default of email, and is not UTF-8 by mistake. */
export function isTrustedCharset(charset: string | undefined, bytes: Buffer): boolean {
	const label = toLabel(charset);
	if (utf8Labels.has(label)) {
		return isMostlyUtf8(bytes);
	}
	return !undeclaredLabels.has(label) && (wideLabel.test(label) || decodeAs(label, Buffer.alloc(0)) !== null);
}

/** Decodes text. If the charset is unknown or wrong, tries UTF-8, then Windows-1252. */
export function decodeText(bytes: Buffer, charset: string | undefined): string {
	const label = toLabel(charset);
	const utf16 = detectUtf16(bytes, wideLabel.test(label));
	const isUnhelpful = utf8Labels.has(label) || undeclaredLabels.has(label) || wideLabel.test(label);
	const decoded = utf16 === null && isUnhelpful ? null : decodeAs(utf16 ?? label, bytes);
	if (decoded !== null) {
		return decoded;
	}
	if (!isMostlyUtf8(bytes)) {
		return new TextDecoder('windows-1252').decode(bytes);
	}
	const text = bytes.toString('utf8').replace(/^\ufeff/, '');
	// Japanese mailers do not always declare this charset.
	return text.includes('\x1b$') ? new TextDecoder('iso-2022-jp').decode(bytes) : text;
}

const toLabel = (charset: string | undefined): string => (charset ?? '').trim().toLowerCase();

/** Whether most of the text beyond ASCII decodes as UTF-8, which then may be damaged or cut inside a character. */
function isMostlyUtf8(bytes: Buffer): boolean {
	if (isUtf8(bytes)) {
		return true;
	}
	let surplus = 0;
	for (const character of bytes.toString('utf8')) {
		surplus += character === '\ufffd' ? -1 : character > '\x7f' ? 1 : 0;
	}
	return surplus >= 0;
}

const wideLabel = /^(?:cs)?(?:utf-?16|unicode|(?:iso-10646-)?ucs-2)(?:le|be|feff|fffe)?$/;
const sampleLength = 1024;

/**
 * Detects UTF-16 by its bytes, because mailers declare it for ASCII and send it undeclared. In every language, spaces
 * and digits have a zero octet.
 */
function detectUtf16(bytes: Buffer, isDeclared: boolean): 'utf-16le' | 'utf-16be' | null {
	const head = bytes.subarray(0, sampleLength);
	if (!head.includes(0)) {
		return null;
	}
	const zeros = [0, 0];
	for (const [index, byte] of head.entries()) {
		zeros[index % 2] = (zeros[index % 2] as number) + (byte === 0 ? 1 : 0);
	}
	const [even = 0, odd = 0] = zeros;
	const isWide = Math.abs(even - odd) * (isDeclared ? 50 : 4) > head.length;
	return isWide ? (even > odd ? 'utf-16be' : 'utf-16le') : null;
}

const utf8Labels: ReadonlySet<string> = new Set(['utf-8', 'utf8']);
/** The labels of programs that know nothing about charsets. */
const undeclaredLabels: ReadonlySet<string> = new Set(['', 'us-ascii', 'ascii']);

// Names that are missing from the WHATWG's list of encodings.
const otherNames: ReadonlyMap<string, string> = new Map([
	['cp932', 'shift_jis'],
	['windows-31j', 'shift_jis'],
	['iso-2022-jp-ms', 'iso-2022-jp'],
	['iso-2022-jp-1', 'iso-2022-jp'],
	['iso-2022-jp-2', 'iso-2022-jp'],
	['cp936', 'gbk'],
	['x-gbk', 'gbk'],
	['cp949', 'euc-kr'],
	['cp950', 'big5'],
	['iso-8859-8-e', 'iso-8859-8'],
	['ansi', 'windows-1252'],
]);

/** Returns `null` if the charset is unknown. */
function decodeAs(label: string, bytes: Buffer): string | null {
	const name = otherNames.get(label) ?? label.replace(/^cp-?(125\d)$/, 'windows-$1').replace(/^cp-?866$/, 'ibm866');
	try {
		return new TextDecoder(name).decode(bytes);
	} catch {
		return null;
	}
}

const maxWordsLength = 16 * 1024;

/** Decodes the encoded words of a header field (RFC 2047). */
export function decodeWords(value: string): string {
	if (!value.includes('=?')) {
		return value;
	}
	const text = value.slice(0, maxWordsLength);
	let decoded = '';
	let run: EncodedWord[] = [];
	let position = 0;
	for (const {0: word, 1: label = '', 2: kind = '', 3: content = '', index} of text.matchAll(encodedWord)) {
		const between = text.slice(position, index);
		const charset = label.replace(/\*.*/, '').toLowerCase();
		const isAdjacent = run.length > 0 && between.trim() === '';
		if (!isAdjacent || run[0]?.charset !== charset) {
			decoded += decodeRun(run) + (isAdjacent ? '' : between);
			run = [];
		}
		run.push({charset, isBase64: kind.toLowerCase() === 'b', text: content});
		position = index + word.length;
	}
	return decoded + decodeRun(run) + text.slice(position);
}

type EncodedWord = {readonly charset: string; readonly isBase64: boolean; readonly text: string};

const encodedWord = /=\?([^?\s]{1,64})\?([bq])\?([^?]*)\?=/gi;

/**
 * Decodes adjacent words of one charset together, because programs split words inside a character or inside a group of
 * four base64 digits.
 */
function decodeRun(words: readonly EncodedWord[]): string {
	const bytes: Buffer[] = [];
	let digits = '';
	for (const [n, {isBase64, text}] of words.entries()) {
		digits += isBase64 ? text : '';
		if (!isBase64) {
			bytes.push(decodeQuotedPrintable(Buffer.from(text.replaceAll('_', ' '), 'latin1')));
		} else if (words[n + 1]?.isBase64 !== true || digits.endsWith('=')) {
			bytes.push(Buffer.from(digits, 'base64'));
			digits = '';
		}
	}
	return words.length === 0 ? '' : decodeText(Buffer.concat(bytes), words[0]?.charset);
}

/** Returns text unchanged if it is obviously not base64: mailers declare base64 for plain text. */
function decodeBase64(body: Buffer): Buffer {
	const text = body.toString('latin1');
	const otherCount = text.slice(0, 4096).replace(/[A-Za-z0-9+/=\s]/g, '').length;
	const wordCount = text.slice(0, 4096).split(' ').length;
	return otherCount * 20 > Math.min(text.length, 4096) || wordCount > 20 ? body : Buffer.from(text, 'base64');
}

const [tab, lf, cr, blank, equals] = [0x09, 0x0a, 0x0d, 0x20, 0x3d];

/**
 * Decodes octet by octet (RFC 2045 §6.7). A regular expression that matches millions of `=` exhausts the thread's
 * memory and crashes the process.
 */
function decodeQuotedPrintable(body: Buffer): Buffer {
	const decoded = Buffer.allocUnsafe(body.length);
	let length = 0;
	/** The length without trailing spaces, which count only if something follows them on their line. */
	let solid = 0;
	/** Apart from spaces, the last octet is a `=` that encodes nothing. At the end of a line it joins the next line. */
	let isSoftBreak = false;
	for (let index = 0; index < body.length; index++) {
		const octet = body[index] as number;
		const value = octet === equals ? 16 * hexDigit(body[index + 1]) + hexDigit(body[index + 2]) : Number.NaN;
		if (octet === lf || octet === cr) {
			length = solid;
			if (isSoftBreak && octet === lf) {
				length--;
			} else {
				decoded[length++] = octet;
			}
		} else {
			decoded[length++] = Number.isNaN(value) ? octet : value;
			index += Number.isNaN(value) ? 0 : 2;
		}
		if (octet !== blank && octet !== tab) {
			solid = length;
			isSoftBreak = octet === equals && Number.isNaN(value);
		}
	}
	return decoded.subarray(0, isSoftBreak ? solid - 1 : solid);
}

/** Returns `NaN` if the octet is not a hexadecimal digit. */
function hexDigit(octet = 0): number {
	const digit = octet - 0x30;
	const letter = (octet | 0x20) - 0x61;
	return digit >= 0 && digit <= 9 ? digit : letter >= 0 && letter <= 5 ? letter + 10 : Number.NaN;
}

const entities: Readonly<Record<string, string>> = {
	amp: '&',
	lt: '<',
	gt: '>',
	quot: '"',
	apos: "'",
	nbsp: ' ',
	'#39': "'",
};
const blockTags = /^\/?(?:br|p|div|tr|li|ul|ol|table|h[1-6]|hr|pre|blockquote)$/;
const cellTags = /^\/?t[dh]$/;
const hiddenTags = /^(?:style|script|head|title)$/;

/** Returns the visible text of HTML, one line per block. A single pass keeps the time linear for any markup. */
export function stripHtml(html: string): string {
	let text = '';
	let position = 0;
	const unclosed = new Set<string>();
	while (position < html.length) {
		const open = html.indexOf('<', position);
		text += html.slice(position, open === -1 ? html.length : open);
		if (open === -1) {
			break;
		}
		const name = /^\/?[a-z!][a-z0-9-]*/i.exec(html.slice(open + 1, open + 32))?.[0].toLowerCase();
		if (name === undefined) {
			text += '<';
			position = open + 1;
			continue;
		}
		const close =
			name.startsWith('!') && html.startsWith('<!--', open)
				? html.indexOf('-->', open) + 2
				: html.indexOf('>', open);
		position = close < open ? html.length : close + 1;
		if (hiddenTags.test(name) && !unclosed.has(name)) {
			const end = html.indexOf(`</${html.slice(open + 1, open + 1 + name.length)}`, position);
			position = end === -1 ? position : end;
			if (end === -1) {
				unclosed.add(name);
			}
		} else if (blockTags.test(name)) {
			text += '\n';
		} else if (cellTags.test(name)) {
			text += ' ';
		}
	}
	return text.replace(
		/&(#?\w{1,8});/g,
		(match, name: string) => entities[name.toLowerCase()] ?? codePoint(name) ?? match,
	);
}

function codePoint(name: string): string | null {
	const number = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number.parseInt(name.slice(1), 10);
	return name.startsWith('#') && number > 8 && number < 0x11_0000 ? String.fromCodePoint(number) : null;
}

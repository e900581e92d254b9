import {domainToASCII, domainToUnicode} from 'node:url';

export type Address = {
	/** As the caller wrote it. Responses repeat this spelling. */
	readonly spelling: string;
	readonly local: string;
	/** A-labels in lower case. */
	readonly domain: string;
	/** The comparison form: NFC, lower-case local part, `@`, A-label domain. Dots and plus tags are not folded. */
	readonly key: string;
	/** The local part is not ASCII, so the receiving server must offer SMTPUTF8 (RFC 6531). */
	readonly isUtf8: boolean;
	/** The form used in RCPT: the local part as spelled, `@`, A-label domain. */
	readonly wire: string;
};

/**
 * Removes unnecessary quotes from a local part, since the meaning is the same (RFC 5321 §4.1.2). Others are unchanged.
 */
export function unquotedLocal(local: string): string {
	const quoted = /^"((?:[^"\\]|\\.)*)"$/su.exec(local)?.[1]?.replace(/\\(.)/gsu, '$1');
	return quoted !== undefined && dotAtom.test(quoted) ? quoted : local;
}

/** Returns the part after the `@`. */
export const domainOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1);

type ParsedAddress = {readonly ok: true; readonly address: Address} | {readonly ok: false; readonly problem: string};

// RFC 5321 §4.5.3.1.1 and §4.5.3.1.3 (256 octets of path less its angle brackets), RFC 1035 §2.3.4.
const maxAddressLength = 254;
const maxLocalPartLength = 64;
const maxLabelLength = 63;

// Spaces, controls, quotes, brackets, comments, and characters that are invisible or change the text direction. Mail
// libraries drop or unfold them, so the message would go to a mailbox other than the checked one.
const blocked = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\ufffc\ufffd<>()[\]\\,;:"]/u;
const ascii = /^[\0-\x7f]*$/;
// RFC 5322 §3.2.3 with RFC 6532 §3.2.
const dotAtom = /^[\w!#$%&'*+/=?^`{|}~\x80-\u{10ffff}-]+(?:\.[\w!#$%&'*+/=?^`{|}~\x80-\u{10ffff}-]+)*$/u;
const ldhLabel = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
const unicodeLabel = /^[a-z0-9\x80-\u{10ffff}](?:[a-z0-9\x80-\u{10ffff}-]*[a-z0-9\x80-\u{10ffff}])?$/u;

/**
 * Parses a bare address (an RFC 5321 Mailbox in dot-atom form) without display name, quotes, comments, literals or
 * routes. IDN domains are accepted; a UTF-8 local part only with `allowsUtf8Local`. Takes linear time. The error is a
 * clause (`must …`) that never repeats the text.
 */
export function parseAddress(text: string, {allowsUtf8Local}: {readonly allowsUtf8Local: boolean}): ParsedAddress {
	if (text.length > maxAddressLength || Buffer.byteLength(text) > maxAddressLength) {
		return problem('must be at most 254 octets long');
	}

	const at = text.indexOf('@');
	if (at === -1 || at !== text.lastIndexOf('@') || blocked.test(text)) {
		return problem('must be a bare address such as name@example.com');
	}

	const local = text.slice(0, at);
	if (Buffer.byteLength(local) > maxLocalPartLength) {
		return problem('must have at most 64 octets before the @');
	}

	if (!dotAtom.test(local)) {
		return problem("must have letters, digits and !#$%&'*+-/=?^_`{|}~ before the @, with single dots between them");
	}

	const isUtf8 = !ascii.test(local);
	if (isUtf8 && !allowsUtf8Local) {
		return problem('must have only ASCII characters before the @');
	}

	const domain = parseDomain(text.slice(at + 1));
	if (domain === null) {
		return problem('must have a full domain name such as example.com after the @');
	}

	const wire = `${local}@${domain}`;
	if (Buffer.byteLength(wire) > maxAddressLength) {
		return problem('must be at most 254 octets long with its domain in A-label form');
	}

	const key = `${isUtf8 ? comparable(local) : local.toLowerCase()}@${domain}`;
	return {ok: true, address: {spelling: text, local, domain, key, isUtf8, wire}};
}

/**
 * Returns a mail domain in lower-case A-labels: at least two LDH labels of 1 to 63 characters, the last not all digits.
 * Returns `null` for anything else, including IP addresses and names with a trailing dot.
 */
export function parseDomain(text: string): string | null {
	// Sorting combining marks takes time that grows with the square of their number.
	if (text.length > maxAddressLength) {
		return null;
	}

	const domain = ascii.test(text) && !/xn--/i.test(text) ? text.toLowerCase() : toALabels(text.toLowerCase());
	const labels = domain.split('.');
	return domain.length <= maxAddressLength - 1 &&
		labels.length >= 2 &&
		labels.every(label => label.length <= maxLabelLength && ldhLabel.test(label)) &&
		!/^\d+$/.test(labels.at(-1) ?? '')
		? domain
		: null;
}

// domainToASCII is the host parser of URLs: it stops at a `/` and decodes `%41`, so only letters, digits, hyphens and
// dots may reach it. It also accepts leading hyphens and A-labels that decode to plain ASCII, so the result is checked.
function toALabels(text: string): string {
	if (!/^[a-z0-9.\x80-\u{10ffff}-]+$/u.test(text)) {
		return '';
	}

	const domain = domainToASCII(text);
	const unicode = domainToUnicode(domain);
	// Node 24 returns labels that it cannot decode unchanged.
	const isDecoded = (label: string) => unicodeLabel.test(label) && !label.startsWith('xn--');
	const isValid = domainToASCII(unicode) === domain && unicode.split('.').every(isDecoded);
	return isValid ? domain : '';
}

// Lower-casing may undo the composed form (U+0130), so the text is normalized again.
function comparable(local: string): string {
	return local.normalize('NFC').toLowerCase().normalize('NFC');
}

function problem(text: string): ParsedAddress {
	return {ok: false, problem: text};
}

const operatorLocals: ReadonlySet<string> = new Set(['postmaster', 'abuse']);

/** Whether an address belongs to the installation at every domain, so that no workspace can use it. */
export const isReserved = (address: string): boolean =>
	isOperatorAddress(address) || /^(?:fbl|dmarc|tlsrpt)@/i.test(address);

/** Whether people read the mail to an address (RFC 5321 §4.5.1, RFC 2142). `postmaster` needs no domain. */
export function isOperatorAddress(address: string): boolean {
	return operatorLocals.has((address.split('@')[0] as string).toLowerCase());
}

import {LRUCache} from 'lru-cache';
import {isValidTimezone} from '../compose/render/locale.ts';
import {badInNames, labelProblem} from '../kit/text.ts';
import {parseDuration, parseQueryTime} from '../kit/time.ts';
import {type Address, parseAddress, parseDomain} from '../mail/address.ts';
import {readRateLimit} from '../mail/api-key.ts';
import {defaultAttachments, maxAttachments} from '../mail/attachment-limits.ts';
import {validAccent, validLogoUrl} from '../mail/branding.ts';
import {isContentId} from '../mail/content-id.ts';
import {isTemplateId, templateIdForm} from '../mail/ids.ts';
import {readMediaType} from '../mail/media-type.ts';
import {eventTypes, isTopicCode, isVariableName} from '../mail/message.ts';
import {parseRoute} from '../mail/route.ts';
import {maxQueryTerms, queryTerms} from '../mail/terms.ts';
import {maxOverlap} from '../mail/webhook.ts';
import {maxDays} from './messages/stats.ts';

/** Returns what is required of a text, as a clause (`must …`), or `null` if the text is valid. */
type Format = (text: string) => string | null;

const maxSubjectLength = 1000;
// PostgreSQL rejects both. SQLite accepts them, so without this check they would fail on one engine only.
const illFormed = /[\0\p{Cs}]/u;
// Excludes what would end a header line, separate a path, or display a different name than the bytes contain.
const badInFilename = new RegExp(`[/\\\\${badInNames}]`, 'u');

/** Whether both engines can store the text: it has no NUL and no lone surrogate. */
export function isStorable(text: string): boolean {
	return !illFormed.test(text);
}

const addresses = new LRUCache<string, Address>({max: 100});

/**
 * Returns the parsed address, or `null` if the text is not one. Each address is checked first and read later, and
 * senders repeat, so the last valid ones are cached. The cache is small because addresses are personal data.
 */
export function readAddress(text: string): Address | null {
	const known = addresses.get(text);
	if (known !== undefined) {
		return known;
	}
	const parsed = parseAddress(text, {allowsUtf8Local: true});
	if (!parsed.ok) {
		return null;
	}
	addresses.set(text, parsed.address);
	return parsed.address;
}

function addressProblem(text: string, utf8Local: boolean): string | null {
	const address = readAddress(text);
	if (address !== null && (utf8Local || !address.isUtf8)) {
		return null;
	}
	const parsed = parseAddress(text, {allowsUtf8Local: utf8Local});
	return parsed.ok ? null : parsed.problem;
}

function localeProblem(text: string): string | null {
	return canonicalLocale(text) === null ? 'must be a BCP-47 language tag such as en or de-AT' : null;
}

// Creating an Intl.DateTimeFormat costs tens of microseconds, and most sends name the same few time zones.
const zones = new LRUCache<string, boolean>({max: 1000});

function timezoneProblem(text: string): string | null {
	const isShort = text.length <= 100;
	const isValid = isShort && (zones.get(text) ?? isValidTimezone(text));
	if (isShort) {
		zones.set(text, isValid);
	}
	return isValid ? null : 'must be an IANA time zone such as Europe/Berlin or UTC';
}

function routeProblem(text: string): string | null {
	const parsed = parseRoute(text);
	return parsed.ok ? null : parsed.problem;
}

/** The formats that schemas refer to. Each one checks the length first and runs in linear time. */
export const formats = {
	email: text => addressProblem(text, false),
	domain: text => (parseDomain(text) === null ? 'must be a fully qualified domain name such as shop.example' : null),
	'recipient-email': text => addressProblem(text, true),
	'query-email': text => addressProblem(withPlus(text), false),
	'query-recipient-email': text => addressProblem(withPlus(text), true),
	text: text => (isStorable(text) ? null : 'must be valid Unicode without NUL'),
	'template-id': text => (isTemplateId(text) ? null : `must be ${templateIdForm}`),
	'variable-name': text =>
		isVariableName(text) ? null : 'must be the name of a variable, such as code or order.code',
	'topic-code': text => (isTopicCode(text) ? null : 'must be 1 to 64 letters, digits, hyphens and underscores'),
	'subject-words': text =>
		queryTerms(text.slice(0, maxSubjectLength)) !== null && text.length <= maxSubjectLength
			? null
			: `must contain 1 to ${maxQueryTerms} words of letters and digits`,
	'metadata-key': text =>
		text.length >= 1 && [...text.slice(0, 81)].length <= 40 && isStorable(text)
			? null
			: 'must have keys of 1 to 40 characters, valid Unicode without NUL',
	label: text => labelProblem(text),
	description: text => labelProblem(text, 500),
	locale: localeProblem,
	'locale-or-empty': text => (text === '' ? null : localeProblem(text)),
	timezone: timezoneProblem,
	'timezone-or-empty': text => (text === '' ? null : timezoneProblem(text)),
	'logo-url': text => (validLogoUrl(text) === null ? 'must be an https URL of an image' : null),
	accent: text => (validAccent(text) === null ? 'must be six hex digits such as #0a7d4f' : null),
	route: routeProblem,
	'rate-limit': text =>
		readRateLimit(text) === undefined ? 'must be requests/seconds such as 6000/60, or 0 for no limit' : null,
	filename: text =>
		text !== '' && text !== '.' && text !== '..' && text.length <= 510 && !badInFilename.test(text)
			? null
			: 'must be a file name of at most 255 characters without path separators or control characters',
	'media-type': text =>
		text.length <= 255 && readMediaType(text) !== null && !/^(?:multipart|message)\//i.test(text)
			? null
			: 'must be a media type such as application/pdf, with a charset if it is text, and not multipart/* or message/*',
	'content-id': text => (isContentId(text) ? null : 'must be 1 to 128 letters, digits and the characters . _ - @ +'),
	'base64-file': text => base64Problem(text, defaultAttachments.bytes),
	'large-file': text => base64Problem(text, maxAttachments.bytes),
	overlap: text =>
		(parseDuration(text) ?? maxOverlap + 1) <= maxOverlap
			? null
			: 'must be a duration of at most 30d, such as 0, 90s, 5m, 24h or 7d',
	time: text =>
		parseQueryTime(text) === undefined
			? 'must be an RFC 3339 date or date-time such as 2026-06-09 or 2026-06-09T10:15:30Z'
			: null,
	'event-types': text =>
		text.split(',', eventTypes.length + 1).every(type => (eventTypes as readonly string[]).includes(type))
			? null
			: `must be a comma-separated list of event types: ${eventTypes.join(', ')}`,
	'page-limit': text => (/^(?:[1-9]\d?|100)$/.test(text) ? null : 'must be a whole number from 1 to 100'),
	'day-count': text =>
		/^[1-9]\d?$/.test(text) && Number(text) <= maxDays ? null : `must be a whole number from 1 to ${maxDays}`,
} satisfies Record<string, Format>;

export type FormatName = keyof typeof formats;

/** Returns the comparison key of an address in a query. The address must have passed the check of its format. */
export function queryAddressKey(text: string): string {
	return checkedAddress(withPlus(text)).key;
}

/** Returns the address of a text that passed the check of its format. */
export function checkedAddress(text: string): Address {
	const address = readAddress(text);
	if (address === null) {
		throw new Error('An address passed the check of its format but cannot be parsed.');
	}
	return address;
}

// In a query, an unencoded `+` is decoded as a space, which no address contains.
function withPlus(text: string): string {
	return text.replaceAll(' ', '+');
}

/** Returns the decoded bytes, or `null` if the text is not canonical base64 (RFC 4648 §3.5, §4). */
export function decodeBase64(text: string): Buffer | null {
	const bytes = Buffer.from(text, 'base64');
	return bytes.toString('base64') === text ? bytes : null;
}

/** Returns the problem with a base64 file of at most `max` bytes, or `null` if it is valid. */
export function base64Problem(text: string, max: number): string | null {
	return text.length <= Math.ceil(max / 3) * 4 && (decodeBase64(text)?.length ?? max + 1) <= max
		? null
		: `must be base64 (with padding, without line breaks) of at most ${max.toLocaleString('en')} bytes`;
}

/** Returns the canonical form of a BCP-47 tag, or `null` if the text is not one. */
export function canonicalLocale(text: string): string | null {
	try {
		return text.length <= 100 ? (Intl.getCanonicalLocales(text)[0] ?? null) : null;
	} catch {
		return null;
	}
}

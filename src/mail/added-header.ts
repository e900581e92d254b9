import {isMessageId} from './message.ts';

/** Header fields that a send may add in addition to `X-…`, spelled as signatures list them. */
const standardNames = ['In-Reply-To', 'References', 'Importance', 'Auto-Submitted'] as const;
const spellings: ReadonlyMap<string, string> = new Map(standardNames.map(name => [name.toLowerCase(), name]));

/** The maximum length of a value, in octets of UTF-8 (RFC 5322 §2.1.1). */
export const maxHeaderLength = 998;
/** The maximum length of one Message-ID, which leaves space for the field's name. */
export const maxMessageIdLength = 900;
// RFC 5322 §2.2. A longer name would leave its line too little space.
const xName = /^x-[!-9;-~]{1,74}$/i;
/**
 * Reserved names: mailctl's own, those that control a provider or carry its references, and those that others read as
 * an address, a path or a proof of authenticity.
 */
const reservedName = new RegExp(
	`^x-(?:${[
		'(?:mailctl|ses|mailgun|smtpapi|pm|postmark|mailin|sib|mj|mailjet|msys|mc)(?:-.*)?',
		'(?:auth|authentication|authenticated|arc|received|.*dkim)(?:-.*)?',
		'(?:(?:original|envelope|apparently|delivered|forwarded|rcpt)-)?(?:from|to|for|by|cc|bcc|sender|recipient|reply-to|return-path)',
		'failed-recipients',
	].join('|')})$`,
	'i',
);
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
// RFC 3834 §5.
const autoSubmitted = new RegExp(`^${token}(?:; ?${token}=${token})*$`);
/** Characters that a line must not contain, or that some parsers treat as its end. */
const controls = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u;

/** Returns the name of a header field in its proper spelling, or `null` if a send may not add it. */
export function addedName(name: string): string | null {
	return spellings.get(name.toLowerCase()) ?? (xName.test(name) && !reservedName.test(name) ? name : null);
}

/** Returns the problem with a field that a send adds (`must …`), or `null`. */
export function addedProblem(name: string, value: string): string | null {
	const spelling = addedName(name);
	if (spelling === null) {
		return `must not be set: allowed are ${standardNames.join(', ')} and X- names that neither mailctl nor a provider reserves`;
	}
	if (value === '' || Buffer.byteLength(value) > maxHeaderLength) {
		return `must have 1 to ${maxHeaderLength} octets`;
	}
	if (controls.test(value)) {
		return 'must be valid Unicode without line breaks or control characters';
	}
	switch (spelling) {
		case 'In-Reply-To':
		case 'References':
			return value.split(' ').every(isAddedId)
				? null
				: 'must be Message-IDs such as <id@shop.example>, separated by spaces';
		case 'Importance':
			return /^(?:high|normal|low)$/i.test(value) ? null : 'must be high, normal or low';
		case 'Auto-Submitted':
			return autoSubmitted.test(value)
				? null
				: 'must be no, auto-generated, auto-replied or another token (RFC 3834)';
		default:
			return null;
	}
}

const isAddedId = (id: string) => isMessageId(id) && id.length <= maxMessageIdLength && /^[!-~]*$/.test(id);

type Headers = ReadonlyArray<readonly [name: string, value: string]>;

/** Returns the value of a field that a send added. */
export function addedValue(headers: Headers | undefined, name: (typeof standardNames)[number]): string | undefined {
	return headers?.find(([key]) => key === name)?.[1];
}

/**
 * Returns the header fields of a reply (RFC 5322 §3.6.4). Of a long thread, the first message and the newest remain.
 */
export function replyHeaders(messageId: string, originalHeaders: Headers | undefined): Headers {
	const references = addedValue(originalHeaders, 'References') ?? addedValue(originalHeaders, 'In-Reply-To');
	const ids = [...(references?.split(' ') ?? []), messageId];
	while (ids.length > 1 && Buffer.byteLength(ids.join(' ')) > maxHeaderLength) {
		ids.splice(ids.length > 2 ? 1 : 0, 1);
	}
	return [
		['In-Reply-To', messageId],
		['References', ids.join(' ')],
	];
}

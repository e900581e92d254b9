import {isMessageId} from './message.ts';

/** Header fields that a send may add in addition to `X-…`, in the spelling of signatures. */
const known = ['In-Reply-To', 'References', 'Importance', 'Auto-Submitted'] as const;
const spellings: ReadonlyMap<string, string> = new Map(known.map(name => [name.toLowerCase(), name]));

/** The longest value, octets of UTF-8 (RFC 5322 §2.1.1). */
export const maxHeaderLength = 998;
/** Of one Message-ID: its field's name stands beside it. */
export const maxMessageIdLength = 900;
// RFC 5322 §2.2; a long name leaves its line no room.
const xName = /^x-[!-9;-~]{1,74}$/i;
/**
 * What is ours, what steers a provider or carries its references, and what others read as an address, a path or a
 * proof.
 */
const kept = new RegExp(
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
/** What a line cannot hold, or what some readers take for its end. */
const controls = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u;

/** The name of a header field that a send may add, as it is written; null: it may not. */
export function addedName(name: string): string | null {
	return spellings.get(name.toLowerCase()) ?? (xName.test(name) && !kept.test(name) ? name : null);
}

/** What is wrong with a field that a send adds (`must …`); null: nothing. */
export function addedFault(name: string, value: string): string | null {
	const spelled = addedName(name);
	if (spelled === null) {
		return `must not be set: allowed are ${known.join(', ')} and names that begin with X- which neither mailctl nor a provider uses`;
	}
	if (value === '' || Buffer.byteLength(value) > maxHeaderLength) {
		return `must have 1 to ${maxHeaderLength} octets`;
	}
	if (controls.test(value)) {
		return 'must be valid Unicode without line breaks and control characters';
	}
	switch (spelled) {
		case 'In-Reply-To':
		case 'References':
			return value.split(' ').every(isAddedId)
				? null
				: 'must be Message-IDs such as <id@shop.example>, with a space between';
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

/** The value of a field that a send added. */
export function addedValue(headers: Headers | undefined, name: (typeof known)[number]): string | undefined {
	return headers?.find(([one]) => one === name)?.[1];
}

/**
 * The fields of a mail that answers another one (RFC 5322 §3.6.4). Of a long thread the first mail stays, and the
 * newest.
 */
export function answering(messageId: string, its: Headers | undefined): Headers {
	const before = addedValue(its, 'References') ?? addedValue(its, 'In-Reply-To');
	const ids = [...(before?.split(' ') ?? []), messageId];
	while (ids.length > 1 && Buffer.byteLength(ids.join(' ')) > maxHeaderLength) {
		ids.splice(ids.length > 2 ? 1 : 0, 1);
	}
	return [
		['In-Reply-To', messageId],
		['References', ids.join(' ')],
	];
}

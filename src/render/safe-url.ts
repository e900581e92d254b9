const scheme = /^([a-z][a-z0-9+.-]*):/i;
const allowedSchemes = new Set(['http', 'https', 'mailto', 'tel', 'sms', 'cid']);

/**
 * The value, or `#` where it is a URL of a scheme that does not belong into a mail (`javascript:`, `data:`).
 * Browsers drop spaces and controls before and inside of a scheme, so they are no disguise.
 */
export function safeUrl(value: unknown): unknown {
	if (typeof value === 'object' && value !== null) {
		return '#'; // Liquid would join a list to text unseen.
	}
	if (typeof value !== 'string') {
		return value;
	}

	const found = scheme.exec(value.replace(/[\s\u0000-\u0020\u007f-\u00a0\u200b\ufeff]+/g, ''))?.[1];
	return found === undefined || allowedSchemes.has(found.toLowerCase()) ? value : '#';
}

import type {Report} from '../mail/report.ts';
import {addressIn} from './addresses.ts';
import {decodeWords} from './decode.ts';
import {fieldOf, type Mail} from './mime.ts';

const request = /^\W{0,3}(?:un-?subscribe|opt[ -]?out)\W{0,3}$/i;

/**
 * Reads a mail that asks for no more (delivery.md R3.21): what mail programs send to the address of List-Unsubscribe. Null: it asks
 * for nothing. Whose copy it is only the address tells that it came to.
 */
export function readUnsubscribe({root}: Mail): Report[] | null {
	const subject = decodeWords(fieldOf(root.fields, 'subject') ?? '').trim();
	const byApple = /^true$/i.test(fieldOf(root.fields, 'x-apple-unsubscribe') ?? '');
	if (!byApple && !request.test(subject)) {
		return null;
	}
	return [
		{
			recipient: addressIn(fieldOf(root.fields, 'from') ?? ''),
			originalRecipient: null,
			action: 'unsubscribe',
			status: null,
			code: null,
			host: null,
			type: 'none',
			category: null,
			suppresses: false,
			rule: 'unsubscribe-mail',
			matched: byApple ? 'X-Apple-Unsubscribe' : subject.slice(0, 40),
			reason: '',
			feedbackType: null,
		},
	];
}

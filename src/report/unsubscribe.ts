import type {Report} from '../mail/report.ts';
import {fieldOf, type Mail} from './mime.ts';
import {reportOfSender, subjectOf} from './of-sender.ts';

const request = /^\W{0,3}(?:un-?subscribe|opt[ -]?out)\W{0,3}$/i;

/**
 * Reads a mail that asks for no more (R3.21): what mail programs send to the address of List-Unsubscribe. Null: it asks
 * for nothing. Whose copy it is only the address tells that it came to.
 */
export function readUnsubscribe(mail: Mail): Report[] | null {
	const subject = subjectOf(mail);
	const byApple = /^true$/i.test(fieldOf(mail.root.fields, 'x-apple-unsubscribe') ?? '');
	if (!byApple && !request.test(subject)) {
		return null;
	}
	const matched = byApple ? 'X-Apple-Unsubscribe' : subject.slice(0, 40);
	return [reportOfSender(mail, {action: 'unsubscribe', rule: 'unsubscribe-mail', matched})];
}

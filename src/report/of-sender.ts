import type {Report} from '../mail/report.ts';
import {addressIn} from './addresses.ts';
import {decodeWords} from './decode.ts';
import {fieldOf, type Mail} from './mime.ts';

const longestSubject = 200;

/** A mail's subject as people see it. */
export function subjectOf({root}: Mail): string {
	return decodeWords(fieldOf(root.fields, 'subject') ?? '').trim();
}

/** Who sent a mail, by its From; null: it does not say. */
export function senderOf({root}: Mail): string | null {
	return addressIn(fieldOf(root.fields, 'from') ?? '');
}

/** What a mail says that somebody wrote, or his program, and no mail system: nothing was refused, and it is about himself. */
export function reportOfSender(mail: Mail, said: Pick<Report, 'action' | 'rule' | 'matched'>): Report {
	return {
		recipient: senderOf(mail),
		originalRecipient: null,
		status: null,
		code: null,
		host: null,
		type: 'none',
		category: null,
		suppresses: false,
		reason: subjectOf(mail).slice(0, longestSubject),
		feedbackType: null,
		...said,
	};
}

import type {Kept} from '../mail/report.ts';
import type {Review, TokenFault} from '../outcome/matches.ts';
import {readMail} from '../report/mime.ts';
import {senderOf, subjectOf} from '../report/sender-mail.ts';
import type {KeptMail} from '../store/kept-mails.ts';

// Mails that came back and are kept for review: how each was read, and why it is kept.

const nothingKnown: Review = {kind: 'other', reports: [], tried: []};

/** How it was read. */
export function reviewOf({reading}: KeptMail): Review {
	return reading === null ? nothingKnown : (JSON.parse(reading) as Review);
}

/** Who wrote to the operator, and about what; null: it is no such mail. */
export function letterOf({head}: KeptMail): {readonly from: string | null; readonly subject: string | null} | null {
	const mail = head && readMail(Buffer.from(head));
	return mail && {from: senderOf(mail), subject: subjectOf(mail) || null};
}

const keptFor: Readonly<Record<Kept, string>> = {
	unmatched: 'no token',
	unread: 'not readable',
	operator: 'for you',
};
/** What was wrong with a token that it bore. */
export const tokenFaults: Readonly<Record<TokenFault, string>> = {
	late: 'token too old',
	gone: 'copy is gone',
	forged: 'forged token',
};

/** Why it is kept, in a few words. */
export function whyOf(mail: KeptMail): string {
	const [token] = reviewOf(mail).tried;
	return mail.fault ?? (mail.kept === 'unmatched' && token ? tokenFaults[token.fault] : keptFor[mail.kept]);
}

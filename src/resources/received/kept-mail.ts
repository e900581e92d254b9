import {readMail} from '../../inbound/reports/mime.ts';
import {findSender, subjectOf} from '../../inbound/reports/sender-mail.ts';
import type {RetentionReason} from '../../mail/report.ts';
import type {Review, TokenProblem} from '../../outcome/matches.ts';
import type {KeptMail} from './kept-store.ts';

// Reports retained for review: how each was interpreted, and why it was retained.

const emptyReview: Review = {kind: 'other', reports: [], tried: []};

/** Returns how the report was interpreted. */
export function reviewOf({reading}: KeptMail): Review {
	return reading === null ? emptyReview : (JSON.parse(reading) as Review);
}

/** Returns the sender and subject of a message to the operator, or `null` for anything else. */
export function operatorMail({head}: KeptMail): {readonly from: string | null; readonly subject: string | null} | null {
	const mail = head && readMail(Buffer.from(head));
	return mail && {from: findSender(mail), subject: subjectOf(mail) || null};
}

const reasonTexts: Readonly<Record<RetentionReason, string>> = {
	unmatched: 'no token',
	unread: 'unreadable',
	operator: 'for you',
};
/** What was invalid about the token of a report. */
export const tokenProblems: Readonly<Record<TokenProblem, string>> = {
	late: 'token too old',
	gone: 'recipient gone',
	forged: 'forged token',
};

/** Returns why the report was retained, in a few words. */
export function retentionReason(mail: KeptMail): string {
	const [token] = reviewOf(mail).tried;
	return mail.fault ?? (mail.kept === 'unmatched' && token ? tokenProblems[token.fault] : reasonTexts[mail.kept]);
}

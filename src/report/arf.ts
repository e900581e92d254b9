import type {Report, ReportAction} from '../mail/report.ts';
import {addressesIn} from './addresses-in-text.ts';
import {type Field, fieldOf, type Mail} from './mime.ts';
import {reasonOf} from './reply.ts';
import type {Structured} from './structured.ts';
import type {BounceText} from './text/bounce-text.ts';

const mostRecipients = 100;

/** What each Feedback-Type asks for (RFC 5965, 6430, 6591 and their drafts). An unknown type asks for nothing. */
const actions: ReadonlyMap<string, ReportAction> = new Map<string, ReportAction>([
	['abuse', 'complaint'],
	['fraud', 'complaint'],
	['virus', 'complaint'],
	['other', 'complaint'],
	['spam', 'complaint'],
	['complaint', 'complaint'],
	['phishing', 'complaint'],
	['opt-out', 'unsubscribe'],
	['opt-out-list', 'unsubscribe'],
	['unsubscribe', 'unsubscribe'],
]);

/** Reads a feedback report (RFC 5965), or what Microsoft sends instead. Null: not a feedback report. */
export function readFeedback(
	mail: Mail,
	text: Pick<BounceText, 'said'>,
	{feedback: fields, ses, returned, status}: Structured,
): Report[] | null {
	if (fields) {
		const about = {rule: 'feedback-type', host: reporterOf(fields), said: firstParagraph(text)};
		return reportsOf(recipientsOf(fields, returned), typeIn(fieldOf(fields, 'feedback-type') ?? ''), about);
	}
	const complaint = ses?.complaint;
	if (complaint) {
		const recipients = complaint.recipients.length > 0 ? complaint.recipients : [null];
		return reportsOf(recipients, typeIn(complaint.type), {rule: 'feedback-ses', host: null, said: ''});
	}
	const recipient = status === null ? junkReported(mail, returned) : undefined;
	const about = {rule: 'feedback-jmrp', matched: junkField, host: null, said: firstParagraph(text)};
	return recipient === undefined ? null : reportsOf([recipient], 'abuse', about);
}

function typeIn(text: string): string {
	return /[a-z][a-z0-9_-]{0,40}/i.exec(text)?.[0].toLowerCase() ?? 'abuse';
}

function reporterOf(fields: readonly Field[]): string | null {
	return /[a-z0-9-]+(?:\.[a-z0-9-]+)+/i.exec(fieldOf(fields, 'reporting-mta') ?? '')?.[0].toLowerCase() ?? null;
}

/** Each address once; one null where the report hides them. */
function recipientsOf(fields: readonly Field[], returned: ReadonlyArray<readonly Field[]>): Array<string | null> {
	const named = valuesOf(fields, ['original-rcpt-to', 'removal-recipient']);
	const found = (named.length > 0 ? named : returned.flatMap(sentTo)).filter(address => !isHidden(address));
	const unique = [...new Map(found.map(address => [address.toLowerCase(), address])).values()];
	return unique.length > 0 ? unique.slice(0, mostRecipients) : [null];
}

/** To whom a returned mail went: what its receiver wrote down, else its `To` where that is one address. */
function sentTo(fields: readonly Field[]): string[] {
	const traced = valuesOf(fields, [junkField, 'x-original-to', 'delivered-to', 'envelope-to', 'x-rcpt-to']).slice(0, 1);
	const to = valuesOf(fields, ['to']);
	return traced.length > 0 ? traced : to.length === 1 ? to : [];
}

function valuesOf(fields: readonly Field[], names: readonly string[]): string[] {
	return fields.filter(({name}) => names.includes(name)).flatMap(({value}) => addressesIn(value));
}

/** Reporters put a word in place of the local part. A hash (RFC 6590) looks like an address and is shown as one, though it matches none. */
function isHidden(address: string): boolean {
	const local = address.slice(0, address.lastIndexOf('@'));
	return /^\W*(?:redacted|undisclosed|hidden|anonymous|x{3,})\W*$/i.test(local);
}

const junkField = 'x-hmxmroriginalrecipient';

/** Microsoft's Junk Mail Reporting Program: the mail that was complained about, and no feedback report. Undefined: not that. */
function junkReported({root}: Mail, returned: ReadonlyArray<readonly Field[]>): string | null | undefined {
	const [recipient] = valuesOf([...root.fields, ...returned.flat()], [junkField]);
	if (recipient !== undefined) {
		return recipient;
	}
	const from = fieldOf(root.fields, 'from') ?? '';
	const isComplaint = /complaint about message from/i.test(fieldOf(root.fields, 'subject') ?? '');
	return returned.length > 0 && isComplaint && /\bstaff@(?:hotmail|outlook)\.com\b/i.test(from) ? null : undefined;
}

function firstParagraph({said}: Pick<BounceText, 'said'>): string {
	return said.trim().split(/\n[ \t]*\n/)[0] ?? '';
}

/** `said`: the words for people. */
function reportsOf(
	recipients: ReadonlyArray<string | null>,
	type: string,
	{rule, matched = type, host, said}: {rule: string; matched?: string; host: string | null; said: string},
): Report[] {
	const action = actions.get(type) ?? 'none';
	return recipients.map(recipient => ({
		recipient,
		originalRecipient: null,
		action,
		status: null,
		code: null,
		host,
		type: 'none',
		category: null,
		suppresses: action === 'complaint',
		rule,
		matched,
		reason: reasonOf(said),
		feedbackType: type,
	}));
}

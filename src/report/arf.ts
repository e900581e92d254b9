import type {Report, ReportAction} from '../mail/report.ts';
import {addressesIn} from './addresses.ts';
import {humanTextOf} from './human.ts';
import {type Field, fieldOf, leavesOf, type Mail, readFields} from './mime.ts';
import {reasonOf} from './reason.ts';
import {returnedHeaders} from './returned.ts';

const mostRecipients = 100;

/** What each Feedback-Type asks for (RFC 5965, 6430, 6591, and drafts before them); one that nobody knows asks for nothing. */
const actions: Readonly<Record<string, ReportAction>> = {
	abuse: 'complaint',
	fraud: 'complaint',
	virus: 'complaint',
	other: 'complaint',
	spam: 'complaint',
	complaint: 'complaint',
	phishing: 'complaint',
	'opt-out': 'unsubscribe',
	'opt-out-list': 'unsubscribe',
	unsubscribe: 'unsubscribe',
};

/** Reads a feedback report (RFC 5965), and what Microsoft sends in its place. Null: it is none. */
export function readFeedback(mail: Mail): Report[] | null {
	const returned = returnedHeaders(mail);
	const fields = feedbackFields(mail);
	if (fields) {
		const type = typeOf(fields);
		const action = actions[type] ?? 'none';
		const recipients = recipientsOf(fields, returned);
		return recipients.map(recipient =>
			reportOf({recipient, action, type, rule: 'feedback_type', matched: type, host: reporterOf(fields), mail}),
		);
	}
	const recipient = junkReported(mail, returned);
	return recipient === undefined
		? null
		: [
				reportOf({
					recipient,
					action: 'complaint',
					type: 'abuse',
					rule: 'feedback_jmrp',
					matched: junkField,
					host: null,
					mail,
				}),
			];
}

/** The fields of a feedback report's machine-readable part; null: there is none. */
export function feedbackFields(mail: Mail): Field[] | null {
	const leaves = leavesOf(mail.root);
	const part =
		leaves.find(({type}) => /^(?:message|text|application)\/feedback-report$/.test(type)) ??
		leaves.find(
			part => /^(?:text\/plain|application\/octet-stream)$/.test(part.type) && looksLikeFeedback(part.text()),
		);
	return part ? readFields(Buffer.from(part.text().replace(/\n(?:[ \t]*\n)+/g, '\n'))) : null;
}

function looksLikeFeedback(text: string): boolean {
	const head = text.slice(0, 8192);
	return /^feedback-type[ \t]*:/im.test(head) && /^(?:user-agent|version)[ \t]*:/im.test(head);
}

function typeOf(fields: readonly Field[]): string {
	const type = /[a-z][a-z0-9_-]{0,40}/i.exec(fieldOf(fields, 'feedback-type') ?? '')?.[0].toLowerCase();
	return type ?? 'abuse';
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

/** RFC 6590: reporters put a word or a hash in place of the local part. */
function isHidden(address: string): boolean {
	const local = address.slice(0, address.lastIndexOf('@'));
	return /^\W*(?:redacted|undisclosed|hidden|anonymous|x{3,})\W*$|^[0-9a-f]{32,64}$|^[\w+/-]{27,88}={1,2}$/i.test(
		local,
	);
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

type Told = {
	readonly recipient: string | null;
	readonly action: ReportAction;
	readonly type: string;
	readonly rule: string;
	readonly matched: string;
	readonly host: string | null;
	readonly mail: Mail;
};

function reportOf({recipient, action, type, rule, matched, host, mail}: Told): Report {
	return {
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
		reason: reasonOf(
			humanTextOf(mail)
				.trim()
				.split(/\n[ \t]*\n/)[0] ?? '',
		),
		feedbackType: type,
	};
}

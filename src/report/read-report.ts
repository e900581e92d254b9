import type {Classify, Evidence, Judgement} from '../mail/bounce.ts';
import type {Clues, Reading, Report, ReportAction} from '../mail/report.ts';
import {addressesIn} from './addresses-in-text.ts';
import {stripHtml} from './decode.ts';
import {readDsn} from './dsn.ts';
import {type Field, fieldOf, leavesOf, type Mail, readMail} from './mime.ts';
import {evidenceIn, reasonOf, replyAlone} from './reply.ts';
import {isAutoReply, readUnsubscribe, reportOfSender, senderOf} from './sender-mail.ts';
import {readStructured, type Structured} from './structured.ts';
import {type BounceText, bounceTextOf, longestText, returnedRecipient} from './text/bounce-text.ts';
import {type Finding, mostFindings} from './text/listed.ts';
import {findingsOf, readLetter} from './text/recipients-in-text.ts';
import {returnedParts} from './text/returned.ts';
import {actionOf, arrival, daemonSigns} from './text/signs.ts';

/** A forwarded mail may be forwarded again. */
const deepest = 3;

/** Reads a returned mail: its kind, and its outcome for each recipient. Never throws, for any bytes. */
export function readReport(raw: Buffer, classify: Classify): Reading {
	return readAt(raw, classify, 0);
}

function readAt(raw: Buffer, classify: Classify, depth: number): Reading {
	const mail = readMail(raw);
	const text = bounceTextOf(mail);
	const reading = readingOf(mail, text, classify);
	if (reading.kind !== 'other' || reading.reports.length > 0 || reading.fault !== null || depth >= deepest) {
		return reading;
	}
	const leaves = leavesOf(mail.root);
	const [attached, second] = returnedParts(leaves);
	if (attached === undefined || second !== undefined) {
		return reading; // With several it is unknown which is meant.
	}
	const inside = readAt(attached.body(), classify, depth + 1);
	if (isOfDaemon(text) && leaves[0] === attached && inside.kind !== 'other') {
		return inside;
	}
	const isReport = inside.kind === 'dsn' || inside.kind === 'arf';
	// Without a clue it matches no mail of ours: a person asks about a bounce.
	return isReport && Object.values(inside.clues).some(found => found.length > 0)
		? {...inside, forwarded: true}
		: reading;
}

/** Whether a gateway wrapped a bounce in a mail of its own. */
function isOfDaemon(text: BounceText): boolean {
	const {from, subject, other} = daemonSigns(text);
	return from && subject && !other;
}

function readingOf(mail: Mail, text: BounceText, classify: Classify): Reading {
	const structured = readStructured(mail);
	const {kind, reports} = whatItSays(mail, text, structured, classify);
	const isCut = structured.status?.cut === true || (kind === 'text' && isTextCut(text, reports));
	const fault = mail.fault ?? (isCut ? 'too many recipients' : null);
	// What was left out may say the contrary.
	return {kind, reports: fault === null ? reports : [], clues: readClues(mail, structured), fault};
}

/** Whether the text has more recipients than the reports. */
function isTextCut({said}: BounceText, reports: readonly Report[]): boolean {
	return reports.length >= mostFindings || (reports.length > 1 && said.length >= longestText);
}

function whatItSays(
	mail: Mail,
	text: BounceText,
	structured: Structured,
	classify: Classify,
): Pick<Reading, 'kind' | 'reports'> {
	const feedback = readFeedback(mail, text, structured);
	if (feedback) {
		return {kind: 'arf', reports: feedback};
	}
	const {status, returned} = structured;
	const notified = status && readDsn(mail, text, {status, returned}, classify);
	if (notified) {
		return {kind: 'dsn', reports: notified};
	}
	const inWords = readText(text, classify);
	if (inWords) {
		return {kind: 'text', reports: inWords};
	}
	const asked = readUnsubscribe(mail);
	if (asked) {
		return {kind: 'other', reports: asked};
	}
	if (!isAutoReply(mail, text)) {
		return {kind: 'other', reports: []};
	}
	const quiet = {action: 'none', rule: null, matched: null} as const;
	return {kind: 'auto_reply', reports: senderOf(mail) === null ? [] : [reportOfSender(mail, quiet)]};
}

/**
 * Reads a bounce in words (R3.12): the outcome for each recipient. Null: not a bounce, even if it mentions bounces.
 * Never throws; time and memory are bounded, as only 64 KB of text are read.
 */
export function readText(bounce: BounceText, classify: Classify): Report[] | null {
	const found = findingsOf(bounce);
	const findings = (found.length > 0 ? found : readLetter(bounce, classify)).slice(0, mostFindings);
	if (findings.length === 0) {
		return null;
	}
	const action = actionOf(bounce);
	const hidden = findings.some(({recipient}) => recipient === null) ? returnedRecipient(bounce) : null;
	const whole = findings.length === 1 ? bounce.said : null;
	return findings.map(finding =>
		reportOf({...finding, ...(action && {action}), recipient: finding.recipient ?? hidden}, whole, classify),
	);
}

function reportOf(finding: Finding, whole: string | null, classify: Classify): Report {
	const {recipient, originalRecipient} = finding;
	// A reason may precede its recipient. With one recipient the whole text is kept.
	const text = whole === null || /\p{L}{3}/u.test(finding.text) ? finding.text : whole;
	const {evidence, judgement} = judge(finding, text, classify);
	const action = finding.action ?? arrival(evidence) ?? 'failed';
	const said = {
		recipient,
		originalRecipient: originalRecipient && originalRecipient !== recipient ? originalRecipient : null,
		action,
		status: evidence.enhanced ?? evidence.status,
		code: evidence.code,
		host: evidence.host,
		reason: reasonOf(text),
		feedbackType: null,
	} as const;
	return action === 'failed'
		? {...said, ...judgement}
		: {...said, type: 'none', category: null, suppresses: false, rule: null, matched: null};
}

/** From the reply alone to all that is about a recipient: daemons put words of their own around what a host said. */
function judge(finding: Finding, text: string, classify: Classify): {evidence: Evidence; judgement: Judgement} {
	const evidence = evidenceOf(finding, text);
	const judgement = classify({...evidence, text: replyAlone(text)});
	return {evidence, judgement: judgement.category === 'undetermined' ? classify(evidence) : judgement};
}

function evidenceOf({phase, host}: Finding, text: string): Evidence {
	const found = evidenceIn(text);
	return {...found, phase: phase ?? found.phase, host: host ?? found.host};
}

/** Fields of a report that say to whom it came. */
const addresseeFields: ReadonlySet<string> = new Set([
	'x-original-to',
	'delivered-to',
	'envelope-to',
	'x-envelope-to',
	'x-rcpt-to',
	'x-real-to',
	'x-forwarded-to',
	'original-recipient',
	'to',
	'cc',
	'apparently-to',
]);

const mostOfAKind = 20;
const longestClue = 320;
const longestPasted = 64 * 1024;

/** Collects what may identify the mail that a report is about. None of it is proof. */
function readClues(mail: Mail, structured: Structured): Clues {
	const {fields} = mail.root;
	const status = [...(structured.status?.message ?? []), ...(structured.feedback ?? [])];
	const returned = [...structured.returned.flat(), ...pastedFields(mail)];
	const of = (list: readonly Field[], ...names: readonly string[]) =>
		list.filter(({name}) => names.includes(name)).map(({value}) => value);

	return {
		addressees: few([
			...fields.filter(({name}) => addresseeFields.has(name)).flatMap(({value}) => addressesIn(value)),
			...of(fields, 'received').flatMap(value => addressesIn(/\bfor[ \t]+(<?[^\s;]{3,320})/.exec(value)?.[1] ?? '', 1)),
		]),
		envelopeIds: few(of(status, 'original-envelope-id').map(unXtext)),
		// Reports by RFC 9477 may hold no other field of the mail than CFBL-Feedback-ID.
		refs: few([
			...of(returned, 'x-mailctl-ref', 'cfbl-feedback-id').map(value => value.trim()),
			...of(status, 'cfbl-feedback-id').map(value => value.trim()),
		]),
		messageIds: few([
			...of(returned, 'message-id').flatMap(idsIn),
			...of(status, 'original-message-id', 'x-original-message-id', 'message-id').flatMap(idsIn),
			...of(fields, 'in-reply-to', 'references').flatMap(idsIn),
			...of(returned, 'references', 'in-reply-to').flatMap(idsIn),
		]),
		returnPaths: few([
			...of(status, 'original-mail-from', 'x-postfix-sender', 'x-original-sender').flatMap(value =>
				addressesIn(value, 1),
			),
			...of(returned, 'return-path', 'x-envelope-from', 'envelope-from').flatMap(value => addressesIn(value, 1)),
			...of(returned, 'received').flatMap(value =>
				addressesIn(/envelope-(?:from|sender)[ \t=:]{1,3}(<?[^\s;)]{3,320})/i.exec(value)?.[1] ?? '', 1),
			),
		]),
		unsubscribeAddresses: few(
			of(returned, 'list-unsubscribe').flatMap(value =>
				[...value.matchAll(/mailto:([^\s?>,]{3,320})/gi)].flatMap(([, address]) =>
					addressesIn(decoded(address as string), 1),
				),
			),
		),
	};
}

const pasted =
	/^[>|* \t]{0,8}(message-id|x-mailctl-ref|cfbl-feedback-id|list-unsubscribe|return-path|in-reply-to|references)[ \t]{0,4}:[ \t]*([^\n]{0,998}(?:\n[>|]{0,4}(?![ \t]*[A-Za-z][\w-]{0,60}[ \t]*:(?!\/\/))[ \t]{1,8}[^\n]{0,998}){0,6})/gim;

/** Header fields in the text: mailers without attachments put the returned mail there. */
function pastedFields(mail: Mail): Field[] {
	const leaves = leavesOf(mail.root);
	const plain = leaves.filter(({type}) => type === 'text/plain').map(part => part.text().slice(0, longestPasted));
	const html = plain.length > 0 ? undefined : leaves.find(({type}) => type === 'text/html');
	const texts = html ? [stripHtml(html.text()).slice(0, longestPasted)] : plain.slice(0, 5);
	return texts.flatMap(text =>
		[...text.matchAll(pasted)].slice(0, mostOfAKind).map(([, name, value]) => ({
			name: (name as string).toLowerCase(),
			value: (value as string).replace(/\n[>|]*[ \t]*/g, ' '),
		})),
	);
}

/** `<a@b> <c@d>` → `a@b`, `c@d`; one without brackets as it is. */
function idsIn(value: string): string[] {
	const bracketed = [...value.matchAll(/<([^<>\s]{3,320})>/g)].map(([, id]) => id as string);
	return value.includes('<') ? bracketed : (value.match(/[^\s<>]{1,200}@[^\s<>]{1,120}/g) ?? []);
}

/** RFC 3461 §4: `+3D` is `=`. */
function unXtext(value: string): string {
	return value.trim().replace(/\+([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function decoded(address: string): string {
	return address.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function few(found: readonly string[]): string[] {
	return [...new Set(found.filter(each => each !== '' && each.length <= longestClue))].slice(0, mostOfAKind);
}

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
function readFeedback(
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

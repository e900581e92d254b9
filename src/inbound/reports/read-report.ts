import type {Classification, Classify, Evidence} from '../../mail/bounce.ts';
import {phaseIn} from '../../mail/classify-reply.ts';
import {decodeWords, stripHtml} from '../../mail/decode.ts';
import {type Clues, notRefused, type Reading, type Report, type ReportAction} from '../../mail/report.ts';
import {addressesIn, addressIn, exceptAddresses, isSameAddress} from './addresses-in-text.ts';
import {readAggregate} from './aggregate-report.ts';
import {collectLeaves, type Field, findField, type Mail, readMail} from './mime.ts';
import {type Paragraph, paragraphsOn, splitParagraphs} from './paragraphs.ts';
import {evidenceIn, findReason, hostIn, type Reply, replyAlone, replyIn} from './reply.ts';
import {findSender, isAutoReply, readFeedback, readUnsubscribe, reportOfSender} from './sender-mail.ts';
import {
	type DeliveryStatus,
	localPartOf,
	parseAddress,
	readStructured,
	type Structured,
	withoutType,
} from './structured.ts';
import {type BounceText, maxTextLength, readBounceText, returnedParts, returnedRecipient} from './text/bounce-text.ts';
import {type Finding, maxFindings} from './text/listed.ts';
import {actionInText, daemonSigns, deliveredAction, findFindings, readLetter} from './text/recipients-in-text.ts';

/** A forwarded message may have been forwarded before. */
const maxForwards = 3;

/** Reads a returned message: its kind, and the outcome for each recipient. Never throws, whatever the bytes. */
export function readReport(raw: Buffer, classify: Classify): Reading {
	return readAt(raw, classify, 0);
}

function readAt(raw: Buffer, classify: Classify, depth: number): Reading {
	const mail = readMail(raw);
	const text = readBounceText(mail);
	const reading = toReading(mail, text, classify);
	const aggregate = reading.kind === 'other' || reading.kind === 'auto_reply' ? readAggregate(mail, raw) : null;
	if (aggregate !== null) {
		const {kind, report} = aggregate;
		const read = {kind, reports: [], clues: reading.clues};
		return typeof report === 'string' ? {...read, fault: report} : {...read, fault: null, aggregate: report};
	}
	if (reading.kind !== 'other' || reading.reports.length > 0 || reading.fault !== null || depth >= maxForwards) {
		return reading;
	}
	const leaves = collectLeaves(mail.root);
	const [attached, second] = returnedParts(leaves);
	if (attached === undefined || second !== undefined) {
		return reading; // It is unknown which of several is meant.
	}
	const inner = readAt(attached.body(), classify, depth + 1);
	if (isFromGateway(text) && leaves[0] === attached && inner.kind !== 'other') {
		return inner;
	}
	const isReport = inner.kind === 'dsn' || inner.kind === 'arf';
	// Without a clue it cannot match a message: it is somebody's question about a bounce.
	return isReport && Object.values(inner.clues).some(clue => clue.length > 0) ? {...inner, forwarded: true} : reading;
}

/** Whether a gateway wrapped a bounce in a message of its own. */
function isFromGateway(text: BounceText): boolean {
	const {hasDaemonSender, hasBounceSubject, isReplyOrList} = daemonSigns(text);
	return hasDaemonSender && hasBounceSubject && !isReplyOrList;
}

function toReading(mail: Mail, text: BounceText, classify: Classify): Reading {
	const structured = readStructured(mail);
	const {kind, reports} = readReports(mail, text, structured, classify);
	const isCut = structured.status?.isCut === true || (kind === 'text' && isTextCut(text, reports));
	const fault = mail.fault ?? (isCut ? 'too many recipients' : null);
	// The omitted part may contradict the rest.
	return {kind, reports: fault === null ? reports : [], clues: readClues(mail, structured), fault};
}

function isTextCut({ownText}: BounceText, reports: readonly Report[]): boolean {
	return reports.length >= maxFindings || (reports.length > 1 && ownText.length >= maxTextLength);
}

function readReports(
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
	const dsnReports = status && readDsn(mail, text, {status, returned}, classify);
	if (dsnReports) {
		return {kind: 'dsn', reports: dsnReports};
	}
	const textReports = readText(text, classify);
	if (textReports) {
		return {kind: 'text', reports: textReports};
	}
	const unsubscribe = readUnsubscribe(mail);
	if (unsubscribe) {
		return {kind: 'other', reports: unsubscribe};
	}
	if (!isAutoReply(mail, text)) {
		return {kind: 'other', reports: []};
	}
	const noEffect = {action: 'none', rule: null, matched: null} as const;
	return {kind: 'auto_reply', reports: findSender(mail) === null ? [] : [reportOfSender(mail, noEffect)]};
}

/**
 * Reads a plain-text bounce (R3.12) and returns the outcome for each recipient, or `null` if it is not a bounce, even
 * if it mentions one. Never throws. Only 64 KB of text are read, which bounds time and memory.
 */
export function readText(bounce: BounceText, classify: Classify): Report[] | null {
	const found = findFindings(bounce);
	const findings = (found.length > 0 ? found : readLetter(bounce, classify)).slice(0, maxFindings);
	if (findings.length === 0) {
		return null;
	}
	const action = actionInText(bounce);
	const returned = findings.some(({recipient}) => recipient === null) ? returnedRecipient(bounce) : null;
	const fullText = findings.length === 1 ? bounce.ownText : null;
	return findings.map(finding =>
		reportOfFinding(
			{...finding, ...(action && {action}), recipient: finding.recipient ?? returned},
			fullText,
			classify,
		),
	);
}

function reportOfFinding(finding: Finding, fullText: string | null, classify: Classify): Report {
	const {recipient, originalRecipient} = finding;
	// A reason may precede its recipient, so a single recipient gets the whole text.
	const text = fullText === null || /\p{L}{3}/u.test(finding.text) ? finding.text : fullText;
	const {evidence, judgement} = judgeFinding(finding, text, classify);
	const action = finding.action ?? deliveredAction(evidence) ?? 'failed';
	const outcome = {
		recipient,
		originalRecipient: originalRecipient && originalRecipient !== recipient ? originalRecipient : null,
		action,
		status: evidence.enhanced ?? evidence.status,
		code: evidence.code,
		host: evidence.host,
		reason: findReason(text),
		feedbackType: null,
	} as const;
	return {...outcome, ...(action === 'failed' ? judgement : notRefused)};
}

/** Judges by the reply alone, then by all text about the recipient: daemons add text around the reply. */
function judgeFinding(
	finding: Finding,
	text: string,
	classify: Classify,
): {evidence: Evidence; judgement: Classification} {
	const evidence = toEvidence(finding, text);
	const judgement = classify({...evidence, text: replyAlone(text)});
	return {evidence, judgement: judgement.category === 'undetermined' ? classify(evidence) : judgement};
}

function toEvidence({phase, host}: Finding, text: string): Evidence {
	const evidence = evidenceIn(text);
	return {...evidence, phase: phase ?? evidence.phase, host: host ?? evidence.host};
}

/** Header fields of a report that may name its addressee. */
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

const maxPerKind = 20;
const maxClueLength = 320;
const maxPastedLength = 64 * 1024;

/** Collects what may identify the message that a report is about. None of it is proof. */
function readClues(mail: Mail, structured: Structured): Clues {
	const {fields} = mail.root;
	const status = [...(structured.status?.message ?? []), ...(structured.feedback ?? [])];
	const returned = [...structured.returned.flat(), ...pastedFields(mail)];
	const pick = (list: readonly Field[], ...names: readonly string[]) =>
		list.filter(({name}) => names.includes(name)).map(({value}) => value);

	return {
		addressees: boundedUnique([
			...fields.filter(({name}) => addresseeFields.has(name)).flatMap(({value}) => addressesIn(value)),
			...pick(fields, 'received').flatMap(value =>
				addressesIn(/\bfor[ \t]+(<?[^\s;]{3,320})/.exec(value)?.[1] ?? '', 1),
			),
		]),
		envelopeIds: boundedUnique(pick(status, 'original-envelope-id').map(decodeXtext)),
		// Reports by RFC 9477 may contain no field of the original message except CFBL-Feedback-ID.
		refs: boundedUnique([
			...pick(returned, 'x-mailctl-ref', 'cfbl-feedback-id').map(value => value.trim()),
			...pick(status, 'cfbl-feedback-id').map(value => value.trim()),
		]),
		messageIds: boundedUnique([
			...pick(returned, 'message-id').flatMap(idsIn),
			...pick(status, 'original-message-id', 'x-original-message-id', 'message-id').flatMap(idsIn),
			...pick(fields, 'in-reply-to', 'references').flatMap(idsIn),
			...pick(returned, 'references', 'in-reply-to').flatMap(idsIn),
		]),
		returnPaths: boundedUnique([
			...pick(status, 'original-mail-from', 'x-postfix-sender', 'x-original-sender').flatMap(value =>
				addressesIn(value, 1),
			),
			...pick(returned, 'return-path', 'x-envelope-from', 'envelope-from').flatMap(value =>
				addressesIn(value, 1),
			),
			...pick(returned, 'received').flatMap(value =>
				addressesIn(/envelope-(?:from|sender)[ \t=:]{1,3}(<?[^\s;)]{3,320})/i.exec(value)?.[1] ?? '', 1),
			),
		]),
		unsubscribeAddresses: boundedUnique(
			pick(returned, 'list-unsubscribe').flatMap(value =>
				[...value.matchAll(/mailto:([^\s?>,]{3,320})/gi)].flatMap(([, address]) =>
					addressesIn(decodePercent(address as string), 1),
				),
			),
		),
	};
}

const pasted =
	/^[>|* \t]{0,8}(message-id|x-mailctl-ref|cfbl-feedback-id|list-unsubscribe|return-path|in-reply-to|references)[ \t]{0,4}:[ \t]*([^\n]{0,998}(?:\n[>|]{0,4}(?![ \t]*[A-Za-z][\w-]{0,60}[ \t]*:(?!\/\/))[ \t]{1,8}[^\n]{0,998}){0,6})/gim;

/** Finds header fields in the text, where mailers without attachments put the returned message. */
function pastedFields(mail: Mail): Field[] {
	const leaves = collectLeaves(mail.root);
	const plain = leaves.filter(({type}) => type === 'text/plain').map(part => part.text().slice(0, maxPastedLength));
	const html = plain.length > 0 ? undefined : leaves.find(({type}) => type === 'text/html');
	const texts = html ? [stripHtml(html.text()).slice(0, maxPastedLength)] : plain.slice(0, 5);
	return texts.flatMap(text =>
		[...text.matchAll(pasted)].slice(0, maxPerKind).map(([, name, value]) => ({
			name: (name as string).toLowerCase(),
			value: (value as string).replace(/\n[>|]*[ \t]*/g, ' '),
		})),
	);
}

/** Returns `a@b` and `c@d` for `<a@b> <c@d>`, and an id without brackets as it is. */
function idsIn(value: string): string[] {
	const bracketed = [...value.matchAll(/<([^<>\s]{3,320})>/g)].map(([, id]) => id as string);
	return value.includes('<') ? bracketed : (value.match(/[^\s<>]{1,200}@[^\s<>]{1,120}/g) ?? []);
}

/** Decodes xtext (RFC 3461 §4): `+3D` is `=`. */
function decodeXtext(value: string): string {
	return value.trim().replace(/\+([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function decodePercent(address: string): string {
	return address.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function boundedUnique(values: readonly string[]): string[] {
	return [...new Set(values.filter(value => value !== '' && value.length <= maxClueLength))].slice(0, maxPerKind);
}

/** Reads a delivery status notification (RFC 3464, 6533). Returns `null` if it reports on no recipient. */
function readDsn(
	mail: Mail,
	{ownText}: Pick<BounceText, 'ownText'>,
	{status, returned}: Pick<Structured, 'returned'> & {readonly status: DeliveryStatus},
	classify: Classify,
): Report[] | null {
	const recipients = status.recipients.map(readRecipientFields).filter(read => read !== null);
	const known = new Set(
		recipients.flatMap(({named, original}) => [named, original]).map(address => address?.toLowerCase() ?? ''),
	);
	const context: RecipientContext = {
		mail,
		returned,
		ownText,
		paragraphs: splitParagraphs(ownText, known),
		subject: findField(mail.root.fields, 'subject') ?? '',
		reporter: hostOf(findField(status.message, 'reporting-mta')),
		isOnlyRecipient: status.recipients.length === 1,
	};
	const reports = recipients.map(fields => reportOfFields(fields, context, classify));
	return reports.length > 0 ? reports.filter((report, index) => !isRepeated(report, reports.slice(0, index))) : null;
}

/** Whether an earlier report says the same: aliases of one address make a notification name it several times. */
function isRepeated(
	{recipient, originalRecipient, action, status, reason}: Report,
	earlierReports: readonly Report[],
): boolean {
	return (
		recipient !== null &&
		earlierReports.some(
			earlier =>
				earlier.recipient === recipient &&
				earlier.originalRecipient === originalRecipient &&
				earlier.action === action &&
				earlier.status === status &&
				earlier.reason === reason,
		)
	);
}

/** The parts of a message around the fields of a recipient. */
type RecipientContext = {
	readonly mail: Mail;
	readonly returned: Structured['returned'];
	/** Its text for people, whole and by paragraph. */
	readonly ownText: string;
	readonly paragraphs: readonly Paragraph[];
	readonly subject: string;
	readonly reporter: string | null;
	readonly isOnlyRecipient: boolean;
};

function reportOfFields(
	fields: NonNullable<ReturnType<typeof readRecipientFields>>,
	context: RecipientContext,
	classify: Classify,
): Report {
	const {named, local, original, status, diagnostic, comment, supplement, hint} = fields;
	const {isOnlyRecipient} = context;
	const recipient =
		named ?? findByLocalPart(context, local) ?? (isOnlyRecipient ? findNamedElsewhere(context, diagnostic) : null);
	const addresses = [recipient, original].filter(address => address !== null);
	const hasReply = diagnostic !== '' || supplement !== '';
	const paragraphs = paragraphsOn({addresses, isOnlyRecipient, hasReply}, context.paragraphs);
	const replyText = diagnostic === '' ? supplement || `${comment}\n${paragraphs}`.trim() : diagnostic;
	const allText = `${diagnostic}\n${supplement}\n${paragraphs}`;
	const reply = replyIn(replyText);
	const action = toAction(fields, reply.code, context.subject);
	const host = fields.remote ?? hostIn(allText) ?? context.reporter;
	const outcome = {
		recipient,
		originalRecipient: findSentTo(original, recipient, paragraphs),
		action,
		status: unlessGeneric(reply.enhanced) ?? unlessGeneric(status) ?? reply.enhanced ?? status,
		code: reply.code,
		host,
		reason: findReason(replyText),
		feedbackType: null,
	};
	if (action !== 'failed' && action !== 'delayed') {
		return {...outcome, ...notRefused};
	}
	const known = {phase: phaseIn(allText), status, host};
	const otherTexts = [supplement, paragraphs, hint].filter(text => !replyText.includes(text));
	// If the fields have a reply, text that may be about another recipient must not suppress anyone.
	const isSure = (text: string) => isOnlyRecipient || !hasReply || text !== paragraphs;
	const judgement = judgeReplies(classify, known, reply, otherTexts, isSure);
	return action === 'failed'
		? {...outcome, ...judgement}
		: {...outcome, ...judgement, type: 'transient', suppresses: false};
}

/**
 * Judges by the reply. If that is inconclusive, tries the other texts about the recipient one by one. Only texts that
 * are certainly about the recipient may suppress it.
 */
function judgeReplies(
	classify: Classify,
	known: Pick<Evidence, 'phase' | 'status' | 'host'>,
	{code, enhanced, text}: Reply,
	otherTexts: readonly string[],
	isSure: (text: string) => boolean,
): Classification {
	const firstJudgement = classify({...known, code, enhanced, text});
	for (const otherText of firstJudgement.category === 'undetermined' ? otherTexts : []) {
		const otherReply = replyIn(otherText);
		const judgement = classify({
			...known,
			code: code ?? otherReply.code,
			enhanced: unlessGeneric(enhanced) ?? otherReply.enhanced ?? enhanced,
			text: `${text}\n${otherReply.text}`,
		});
		if (judgement.category !== 'undetermined' && (!judgement.suppresses || isSure(otherText))) {
			return judgement;
		}
	}
	return firstJudgement;
}

/** Returns the only addressee of the returned message with this local part: mail systems omit their own domain. */
function findByLocalPart({returned}: RecipientContext, local: string | null): string | null {
	const localPart = local?.toLowerCase();
	const addressees = returned.flatMap(header => header.filter(({name}) => name === 'to' || name === 'cc'));
	const matches = addressees
		.flatMap(({value}) => addressesIn(value))
		.filter(address => address.slice(0, address.lastIndexOf('@')).toLowerCase() === localPart);
	return new Set(matches.map(address => address.toLowerCase())).size === 1 ? (matches[0] as string) : null;
}

/** Finds a recipient that the status omits: in `X-Failed-Recipients`, the diagnostic, or the returned `To`. */
function findNamedElsewhere({mail, returned, ownText}: RecipientContext, diagnostic: string): string | null {
	const {fields} = mail.root;
	const own = fields
		.filter(({name}) => /^(?:to|from|delivered-to|x-original-to)$/.test(name))
		.flatMap(({value}) => addressesIn(value));
	const named = [findField(fields, 'x-failed-recipients') ?? '', diagnostic, ownText].flatMap(text =>
		addressesIn(text),
	);
	const sentTo = returned.flatMap((header: readonly Field[]) => addressesIn(findField(header, 'to') ?? '', 2));
	return exceptAddresses(named, own)[0] ?? (sentTo.length === 1 ? sentTo[0] : null) ?? null;
}

/** Reads the fields of one recipient (RFC 3464 §2.3). Returns `null` if they report nothing. */
function readRecipientFields(fields: readonly Field[]) {
	const original = parseAddress(findField(fields, 'original-recipient'));
	const final =
		parseAddress(findField(fields, 'final-recipient')) ?? parseAddress(findField(fields, 'x-actual-recipient'));
	const status = findField(fields, 'status') ?? '';
	const read = {
		/** Final-Recipient, or a field that replaces it. */
		named: final ?? original,
		/** The local part, if Final-Recipient has no domain. */
		local: localPartOf(findField(fields, 'final-recipient')),
		original,
		action: findField(fields, 'action') || null,
		status: /(?<![\d.])[245]\.\d{1,3}\.\d{1,3}(?![.\d])/.exec(status)?.[0] ?? null,
		/** The text after the status: `5.4.4 (unknown host)`. */
		comment: /\(([^()]{3,400})\)/.exec(status)?.[1] ?? '',
		/** Every Diagnostic-Code, SMTP first. Empty if there is none. */
		diagnostic: findDiagnostic(fields),
		remote: hostOf(findField(fields, 'remote-mta')),
		/** The remote server's reply as IronPort adds it; IronPort's Diagnostic-Code has its own text. */
		supplement: withoutType(findField(fields, 'x-supplementary-info')?.replace(/^<|>$/g, '') ?? ''),
		/** A mailer's own category, in words that the rules know. */
		hint: hints.get(findField(fields, 'x-powermta-bouncecategory')?.toLowerCase() ?? '') ?? '',
	};
	const isEmpty = [read.named, read.action, read.status].every(value => value === null) && read.diagnostic === '';
	return isEmpty ? null : read;
}

function findDiagnostic(fields: readonly Field[]): string {
	const values = fields.filter(({name}) => name === 'diagnostic-code').map(({value}) => decodeWords(value));
	const smtp = values.filter(value => /^smtp/i.test(value));
	return [...smtp, ...values.filter(value => !smtp.includes(value))].map(withoutType).join('\n').trim();
}

/** PowerMTA's bounce categories. */
const hints: ReadonlyMap<string, string> = new Map([
	['bad-mailbox', 'user unknown'],
	['bad-domain', 'host not found'],
	['inactive-mailbox', 'mailbox disabled'],
	['quota-issues', 'mailbox full'],
	['spam-related', 'spam'],
	['spam-content', 'spam'],
	['virus-related', 'virus'],
	['policy-related', 'policy'],
	['relaying-issues', 'relaying denied'],
	['message-expired', 'message expired'],
]);

/** Returns `mx.example.org` for `dns; mx.example.org (192.0.2.1)`. */
function hostOf(value: string | null): string | null {
	const name = /^[[(<]?([\p{L}\d](?:[\p{L}\d._:-]{0,250}[\p{L}\d])?)/u.exec(withoutType(value ?? ''))?.[1];
	return name?.toLowerCase() ?? null;
}

/** Returns the address that was sent to if it differs, from its field or from Postfix's note about an alias. */
function findSentTo(original: string | null, recipient: string | null, paragraphs: string): string | null {
	const expanded = /\(expanded\s{1,8}from:?\s{1,8}(<?[^\s<>()]{3,320})/i.exec(paragraphs)?.[1];
	const address = original ?? (expanded === undefined ? null : addressIn(expanded));
	return address !== null && (recipient === null || !isSameAddress(address, recipient)) ? address : null;
}

const actions: ReadonlyArray<readonly [RegExp, ReportAction]> = [
	[/^(?:fail|undeliver|expired|error|bounce|reject)/, 'failed'],
	[/^(?:delay|defer|warn)/, 'delayed'],
	[/^relay/, 'relayed'],
	[/^expand/, 'expanded'],
	[/^(?:deliver|success)/, 'delivered'],
];

/** Returns the action. If it is missing or not one of RFC 3464, the code and the subject decide. */
function toAction(
	{action, status}: {readonly action: string | null; readonly status: string | null},
	code: number | null,
	subject: string,
): ReportAction {
	const normalized = (action ?? '')
		.replace(/\([^)]{0,200}\)/g, '')
		.trim()
		.toLowerCase();
	const known = actions.find(([pattern]) => pattern.test(normalized))?.[1];
	const isGood = status?.startsWith('2') ?? false;
	if (known === 'failed' && isGood && (code === null || code < 400)) {
		return 'delivered'; // RFC 3463: class 2 means success, whatever the action says.
	}
	if (known) {
		return known;
	}
	if (isGood || (status === null && code !== null && code < 300)) {
		return 'delivered';
	}
	const isWarning = /\b(?:delay|delayed|warning|still being retried)\b/i.test(subject);
	return isWarning && !status?.startsWith('5') ? 'delayed' : 'failed';
}

/** Returns an enhanced code, or `null` if it specifies no more than its class. */
function unlessGeneric(enhanced: string | null): string | null {
	return enhanced === null || /\.0\.0$/.test(enhanced) ? null : enhanced;
}

import {phaseIn} from '../bounce/reply-text.ts';
import type {Classify, Evidence, Judgement} from '../mail/bounce.ts';
import type {Report, ReportAction} from '../mail/report.ts';
import {addressesIn, addressIn, sameAddress, strangersIn} from './addresses-in-text.ts';
import {decodeWords} from './decode.ts';
import {type Field, fieldOf, type Mail} from './mime.ts';
import {hostIn, type Reply, reasonOf, replyIn} from './reply.ts';
import type {Structured} from './structured.ts';
import {addressOf, type DeliveryStatus, withoutType} from './structured.ts';
import type {BounceText} from './text/bounce-text.ts';

/** What a delivery status notification (RFC 3464, 6533) says of each recipient. Null: its status says nothing of any. */
export function readDsn(
	mail: Mail,
	{said}: Pick<BounceText, 'said'>,
	{status, returned}: Pick<Structured, 'returned'> & {readonly status: DeliveryStatus},
	classify: Classify,
): Report[] | null {
	const around: Around = {
		mail,
		returned,
		human: said,
		subject: fieldOf(mail.root.fields, 'subject') ?? '',
		reporter: hostOf(fieldOf(status.message, 'reporting-mta')),
		only: status.recipients.length === 1,
	};
	const reports = status.recipients.flatMap(fields => {
		const read = readRecipientFields(fields);
		return read ? [reportOf(read, around, classify)] : [];
	});
	return reports.length > 0 ? reports.filter((report, at) => !isSaidBefore(report, reports.slice(0, at))) : null;
}

/** Aliases of one address make a report name it many times. */
function isSaidBefore(
	{recipient, originalRecipient, action, status, reason}: Report,
	before: readonly Report[],
): boolean {
	return (
		recipient !== null &&
		before.some(
			one =>
				one.recipient === recipient &&
				one.originalRecipient === originalRecipient &&
				one.action === action &&
				one.status === status &&
				one.reason === reason,
		)
	);
}

/** The parts of a mail around the fields of a recipient. */
type Around = {
	readonly mail: Mail;
	readonly returned: Structured['returned'];
	/** What it says to people. */
	readonly human: string;
	readonly subject: string;
	readonly reporter: string | null;
	/** There is no other recipient. */
	readonly only: boolean;
};

function reportOf(
	fields: NonNullable<ReturnType<typeof readRecipientFields>>,
	around: Around,
	classify: Classify,
): Report {
	const {named, original, status, diagnostic, comment, supplement, hint} = fields;
	const {human, only} = around;
	const recipient = named ?? (only ? namedElsewhere(around, diagnostic) : null);
	const paragraphs = paragraphsOn(recipient, human, only);
	const spoken = diagnostic === '' ? supplement || `${comment}\n${paragraphs}`.trim() : diagnostic;
	const everything = `${diagnostic}\n${supplement}\n${paragraphs}`;
	const reply = replyIn(spoken);
	const action = actionOf(fields, reply.code, around.subject);
	const host = fields.remote ?? hostIn(everything) ?? around.reporter;
	const about = {
		recipient,
		originalRecipient: sentToOf(original, recipient, paragraphs),
		action,
		status: specific(reply.enhanced) ?? specific(status) ?? reply.enhanced ?? status,
		code: reply.code,
		host,
		reason: reasonOf(spoken),
		feedbackType: null,
	};
	if (action !== 'failed' && action !== 'delayed') {
		return {...about, type: 'none', category: null, suppresses: false, rule: null, matched: null};
	}
	const known = {phase: phaseIn(everything), status, host};
	const others = [supplement, paragraphs, hint].filter(each => !spoken.includes(each));
	const judgement = judge(classify, known, reply, others);
	return action === 'failed'
		? {...about, ...judgement}
		: {...about, ...judgement, type: 'transient', suppresses: false};
}

/** By the reply; where that says nothing, by what else is said of the recipient too, one text after the other. */
function judge(
	classify: Classify,
	known: Pick<Evidence, 'phase' | 'status' | 'host'>,
	{code, enhanced, text}: Reply,
	others: readonly string[],
): Judgement {
	const first = classify({...known, code, enhanced, text});
	for (const other of first.category === 'undetermined' ? others : []) {
		const more = replyIn(other);
		const judgement = classify({
			...known,
			code: code ?? more.code,
			enhanced: specific(enhanced) ?? more.enhanced ?? enhanced,
			text: `${text}\n${more.text}`,
		});
		if (judgement.category !== 'undetermined') {
			return judgement;
		}
	}
	return first;
}

/** The recipient where the status names none: `X-Failed-Recipients`, the diagnostic, then the returned mail's `To`. */
function namedElsewhere({mail, returned, human}: Around, diagnostic: string): string | null {
	const {fields} = mail.root;
	const own = fields
		.filter(({name}) => /^(?:to|from|delivered-to|x-original-to)$/.test(name))
		.flatMap(({value}) => addressesIn(value));
	const named = [fieldOf(fields, 'x-failed-recipients') ?? '', diagnostic, human].flatMap(text => addressesIn(text));
	const sentTo = returned.flatMap((header: readonly Field[]) => addressesIn(fieldOf(header, 'to') ?? '', 2));
	return strangersIn(named, own)[0] ?? (sentTo.length === 1 ? sentTo[0] : null) ?? null;
}

const introduction = /(?:response|error|reason|answer|reply|said|returned|was)\b[^\n]{0,80}:[ \t]*$/i;
/** What the sender wrote himself, quoted. */
const quotedHeader = /^[ \t]*(?:subject|message-id|date)[ \t]*:/im;

/**
 * The paragraphs about one recipient, with what they introduce. `only`: there is no other recipient, so every reply in
 * the text is about this one.
 */
function paragraphsOn(address: string | null, text: string, only: boolean): string {
	const paragraphs = text.split(/\n[ \t]*(?:\n[ \t]*)+/);
	const isAbout = (paragraph: string) => address !== null && names(paragraph, address);
	const chosen = paragraphs.filter((paragraph, index) => {
		const before = paragraphs[index - 1] ?? '';
		const follows = introduction.test(before) && (only || isAbout(before));
		return (
			(isAbout(paragraph) || follows || (only && introduction.test(firstLine(paragraph)))) &&
			!quotedHeader.test(paragraph)
		);
	});
	return chosen.join('\n').slice(0, 4096);
}

function firstLine(text: string): string {
	return text.split('\n', 1)[0] ?? '';
}

function names(paragraph: string, address: string): boolean {
	return paragraph.toLowerCase().includes(address.toLowerCase());
}

/** Reads the fields of one recipient of a delivery status (RFC 3464 §2.3); absent things are null. Null if they say nothing. */
function readRecipientFields(fields: readonly Field[]) {
	const original = addressOf(fieldOf(fields, 'original-recipient'));
	const final = addressOf(fieldOf(fields, 'final-recipient')) ?? addressOf(fieldOf(fields, 'x-actual-recipient'));
	const status = fieldOf(fields, 'status') ?? '';
	const read = {
		/** The recipient: Final-Recipient, else a field in its place. */
		named: final ?? original,
		original,
		/** As it is written. */
		action: fieldOf(fields, 'action') || null,
		status: /(?<![\d.])[245]\.\d{1,3}\.\d{1,3}(?![.\d])/.exec(status)?.[0] ?? null,
		/** The words behind the status: `5.4.4 (unknown host)`. */
		comment: /\(([^()]{3,400})\)/.exec(status)?.[1] ?? '',
		/** Every Diagnostic-Code, that of SMTP first; empty if there is no such field. */
		diagnostic: diagnosticOf(fields),
		remote: hostOf(fieldOf(fields, 'remote-mta')),
		/** The other host's reply as IronPort adds it: its Diagnostic-Code has IronPort's own words. */
		supplement: withoutType(fieldOf(fields, 'x-supplementary-info')?.replace(/^<|>$/g, '') ?? ''),
		/** A mailer's own class of the failure, in words that rules know. */
		hint: hints.get(fieldOf(fields, 'x-powermta-bouncecategory')?.toLowerCase() ?? '') ?? '',
	};
	const saysNothing = [read.named, read.action, read.status].every(each => each === null) && read.diagnostic === '';
	return saysNothing ? null : read;
}

function diagnosticOf(fields: readonly Field[]): string {
	const values = fields.filter(({name}) => name === 'diagnostic-code').map(({value}) => decodeWords(value));
	const smtp = values.filter(value => /^smtp/i.test(value));
	return [...smtp, ...values.filter(value => !smtp.includes(value))].map(withoutType).join('\n').trim();
}

/** PowerMTA's categories of bounces. */
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

/** `dns; mx.example.org (192.0.2.1)` → `mx.example.org`. */
function hostOf(value: string | null): string | null {
	const name = /^[[(<]?([\p{L}\d](?:[\p{L}\d._:-]{0,250}[\p{L}\d])?)/u.exec(withoutType(value ?? ''))?.[1];
	return name?.toLowerCase() ?? null;
}

/** The address that was sent to if it differs: by its field, or by Postfix's note on an alias. */
function sentToOf(original: string | null, recipient: string | null, paragraphs: string): string | null {
	const expanded = /\(expanded\s{1,8}from:?\s{1,8}(<?[^\s<>()]{3,320})/i.exec(paragraphs)?.[1];
	const address = original ?? (expanded === undefined ? null : addressIn(expanded));
	return address !== null && (recipient === null || !sameAddress(address, recipient)) ? address : null;
}

const actions: ReadonlyArray<readonly [RegExp, ReportAction]> = [
	[/^(?:fail|undeliver|expired|error|bounce|reject)/, 'failed'],
	[/^(?:delay|defer|warn)/, 'delayed'],
	[/^relay/, 'relayed'],
	[/^expand/, 'expanded'],
	[/^(?:deliver|success)/, 'delivered'],
];

/** The action. Mailers leave it out or use words that RFC 3464 does not have; then code and subject decide. */
function actionOf(
	{action, status}: {readonly action: string | null; readonly status: string | null},
	code: number | null,
	subject: string,
): ReportAction {
	const word = (action ?? '')
		.replace(/\([^)]{0,200}\)/g, '')
		.trim()
		.toLowerCase();
	const known = actions.find(([pattern]) => pattern.test(word))?.[1];
	const isGood = status?.startsWith('2') ?? false;
	if (known === 'failed' && isGood && (code === null || code < 400)) {
		return 'delivered'; // RFC 3463: class 2 is success, whatever the action says.
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

/** A code that says more than its class. */
function specific(enhanced: string | null): string | null {
	return enhanced === null || /\.0\.0$/.test(enhanced) ? null : enhanced;
}

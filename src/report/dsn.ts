import {phaseIn} from '../bounce/spoken-phase.ts';
import type {Classify, Evidence, Judgement} from '../mail/bounce.ts';
import type {Report} from '../mail/report.ts';
import {addressesIn, strangersIn} from './addresses.ts';
import type {DeliveryStatus} from './delivery-status.ts';
import {type Field, fieldOf, type Mail} from './mime.ts';
import {reasonOf} from './reason.ts';
import {actionOf, hostOf, type RecipientFields, readRecipientFields, sentToOf, specific} from './recipient-fields.ts';
import {hostIn, type Reply, replyIn} from './reply.ts';
import type {Structured} from './structured.ts';
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

/** Aliases that lead to one address name it many times. */
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

/** What a mail says besides the fields of a recipient. */
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

function reportOf(fields: RecipientFields, around: Around, classify: Classify): Report {
	const {named, original, status, diagnostic, comment, hint} = fields;
	const {human, only} = around;
	const recipient = named ?? (only ? namedElsewhere(around, diagnostic) : null);
	const paragraphs = paragraphsOn(recipient, human, only);
	const spoken = diagnostic === '' ? `${comment}\n${paragraphs}`.trim() : diagnostic;
	const everything = `${diagnostic}\n${paragraphs}`;
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
	const judgement = judge(classify, known, reply, [diagnostic === '' ? '' : paragraphs, hint]);
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
	for (const other of first.category === 'undetermined' ? others.filter(each => each !== '') : []) {
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

/** Where the status names nobody: `X-Failed-Recipients`, what is told of the failure, then the returned mail's `To`. */
function namedElsewhere({mail, returned, human}: Around, diagnostic: string): string | null {
	const {fields} = mail.root;
	const own = fields
		.filter(({name}) => /^(?:to|from|delivered-to|x-original-to)$/.test(name))
		.flatMap(({value}) => addressesIn(value));
	const told = [fieldOf(fields, 'x-failed-recipients') ?? '', diagnostic, human].flatMap(text => addressesIn(text));
	const sentTo = returned.flatMap((header: readonly Field[]) => addressesIn(fieldOf(header, 'to') ?? '', 2));
	return strangersIn(told, own)[0] ?? (sentTo.length === 1 ? sentTo[0] : null) ?? null;
}

const introduction = /(?:response|error|reason|answer|reply|said|returned|was)\b[^\n]{0,80}:[ \t]*$/i;
/** What the sender wrote himself, quoted. */
const quotedHeader = /^[ \t]*(?:subject|message-id|date)[ \t]*:/im;

/**
 * The paragraphs that speak of one recipient, with what they introduce. `only`: there is no other, so that what was answered
 * is about it wherever it stands.
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

import type {Classify, Evidence, Judgement} from '../mail/bounce.ts';
import type {Report, ReportAction} from '../mail/report.ts';
import {addressesIn, sameAddress} from './addresses.ts';
import {addressOf, type DeliveryStatus, withoutType} from './delivery-status.ts';
import {paragraphsOn, strangersIn} from './human.ts';
import {type Field, fieldOf, type Mail} from './mime.ts';
import {reasonOf} from './reason.ts';
import {hostIn, phaseIn, type Reply, replyIn} from './reply.ts';
import type {Structured} from './structured.ts';
import {bounceTextOf} from './text/bounce-text.ts';

/**
 * What a delivery status notification (RFC 3464, 6533) says of each recipient. Null: its status says nothing of any.
 */
export function readDsn(
	mail: Mail,
	{status, returned}: Pick<Structured, 'returned'> & {readonly status: DeliveryStatus},
	classify: Classify,
): Report[] | null {
	const human = bounceTextOf(mail).said;
	const only = status.recipients.length === 1;
	const reports = status.recipients.flatMap(fields => {
		const report = readRecipient({fields, message: status.message, returned, mail, human, only, classify});
		return report ? [report] : [];
	});
	return reports.length > 0 ? reports : null;
}

type Source = {
	readonly fields: readonly Field[];
	readonly message: readonly Field[];
	readonly returned: Structured['returned'];
	readonly mail: Mail;
	readonly human: string;
	/** There is no other recipient. */
	readonly only: boolean;
	readonly classify: Classify;
};

function readRecipient({fields, message, returned, mail, human, only, classify}: Source): Report | null {
	const original = addressOf(fieldOf(fields, 'original-recipient'));
	const named =
		addressOf(fieldOf(fields, 'final-recipient')) ?? addressOf(fieldOf(fields, 'x-actual-recipient')) ?? original;
	const diagnostic = diagnosticOf(fields);
	const said = fieldOf(fields, 'action') || null;
	const statusField = fieldOf(fields, 'status') ?? '';
	const status = codeOf(statusField);
	if (named === null && said === null && status === null && diagnostic === '') {
		return null;
	}
	const recipient = named ?? (only ? namedElsewhere(mail, [diagnostic, human], returned) : null);
	const paragraphs = paragraphsOn(recipient, human, only);
	const spoken = diagnostic === '' ? `${commentOf(statusField)}\n${paragraphs}`.trim() : diagnostic;
	const reply = replyIn(spoken);
	const action = actionOf(said, {status, code: reply.code, subject: fieldOf(mail.root.fields, 'subject') ?? ''});
	const host = remoteOf(fields) ?? hostIn(`${diagnostic}\n${paragraphs}`) ?? nameOf(fieldOf(message, 'reporting-mta'));
	const about = {
		recipient,
		originalRecipient: original !== null && (recipient === null || !sameAddress(original, recipient)) ? original : null,
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
	const evidence = {phase: phaseIn(`${diagnostic}\n${paragraphs}`), status, host};
	const judgement = judge(classify, evidence, reply, diagnostic === '' ? '' : paragraphs);
	return action === 'failed'
		? {...about, ...judgement}
		: {...about, ...judgement, type: 'transient', suppresses: false};
}

/** By the diagnostic; where that says nothing, by what was said to people too. */
function judge(
	classify: Classify,
	known: Pick<Evidence, 'phase' | 'status' | 'host'>,
	reply: Reply,
	paragraphs: string,
): Judgement {
	const {code, enhanced, text} = reply;
	const first = classify({...known, code, enhanced, text});
	if (first.category !== 'undetermined' || paragraphs === '') {
		return first;
	}
	const more = replyIn(paragraphs);
	const second = classify({
		...known,
		code: code ?? more.code,
		enhanced: specific(enhanced) ?? more.enhanced ?? enhanced,
		text: `${text}\n${more.text}`,
	});
	return second.category === 'undetermined' ? first : second;
}

const actions: ReadonlyArray<readonly [RegExp, ReportAction]> = [
	[/^(?:fail|undeliver|expired|error|bounce|reject)/, 'failed'],
	[/^(?:delay|defer|warn)/, 'delayed'],
	[/^relay/, 'relayed'],
	[/^expand/, 'expanded'],
	[/^(?:deliver|success)/, 'delivered'],
];

type Hints = {readonly status: string | null; readonly code: number | null; readonly subject: string};

function actionOf(said: string | null, {status, code, subject}: Hints): ReportAction {
	const word =
		said
			?.replace(/\([^)]{0,200}\)/g, '')
			.trim()
			.toLowerCase() ?? '';
	const known = actions.find(([pattern]) => pattern.test(word))?.[1];
	const good = status?.startsWith('2') ?? false;
	if (known === 'failed' && good && (code === null || code < 400)) {
		return 'delivered'; // RFC 3463: class 2 is success, whatever the action says.
	}
	if (known) {
		return known;
	}
	if (good || (status === null && code !== null && code < 300)) {
		return 'delivered';
	}
	return /\b(?:delay|delayed|warning|still being retried)\b/i.test(subject) && !status?.startsWith('5')
		? 'delayed'
		: 'failed';
}

/** Every Diagnostic-Code, the one of SMTP first. */
function diagnosticOf(fields: readonly Field[]): string {
	const values = fields.filter(({name}) => name === 'diagnostic-code').map(({value}) => value);
	const smtp = values.filter(value => /^smtp/i.test(value));
	return [...smtp, ...values.filter(value => !smtp.includes(value))].map(withoutType).join('\n').trim();
}

/** `5.0.0 (permanent failure)` → `5.0.0`. */
function codeOf(status: string): string | null {
	return /(?<![\d.])[245]\.\d{1,3}\.\d{1,3}(?![.\d])/.exec(status)?.[0] ?? null;
}

/** `5.4.4 (unknown host)` → `unknown host`. */
function commentOf(status: string): string {
	return /\(([^()]{3,400})\)/.exec(status)?.[1] ?? '';
}

/** A code that says more than its class. */
function specific(enhanced: string | null): string | null {
	return enhanced === null || /\.0\.0$/.test(enhanced) ? null : enhanced;
}

function remoteOf(fields: readonly Field[]): string | null {
	return nameOf(fieldOf(fields, 'remote-mta'));
}

/** `dns; mx.example.org (192.0.2.1)` → `mx.example.org`. */
function nameOf(value: string | null): string | null {
	const name = /^[[(<]?([\p{L}\d](?:[\p{L}\d._:-]{0,250}[\p{L}\d])?)/u.exec(withoutType(value ?? ''))?.[1];
	return name?.toLowerCase() ?? null;
}

/** Where the status names nobody: `X-Failed-Recipients`, what is told of the failure, then the returned mail's `To`. */
function namedElsewhere(
	{root}: Mail,
	texts: readonly string[],
	returned: ReadonlyArray<readonly Field[]>,
): string | null {
	const own = root.fields
		.filter(({name}) => /^(?:to|from|delivered-to|x-original-to)$/.test(name))
		.flatMap(({value}) => addressesIn(value));
	const told = [fieldOf(root.fields, 'x-failed-recipients') ?? '', ...texts].flatMap(text => addressesIn(text));
	const sentTo = returned.flatMap(fields => addressesIn(fieldOf(fields, 'to') ?? '', 2));
	return strangersIn(told, own)[0] ?? (sentTo.length === 1 ? sentTo[0] : null) ?? null;
}

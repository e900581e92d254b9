import type {ReportAction} from '../mail/report.ts';
import {addressIn, sameAddress} from './addresses.ts';
import {decodeWords} from './decode.ts';
import {addressOf, withoutType} from './delivery-status.ts';
import {type Field, fieldOf} from './mime.ts';

/** The fields of one recipient of a delivery status (RFC 3464 §2.3), read; absent things are null. */
export type RecipientFields = {
	/** Whom it names: Final-Recipient, else what stands for it. */
	readonly named: string | null;
	readonly original: string | null;
	/** As it is written. */
	readonly action: string | null;
	readonly status: string | null;
	/** What stands behind the status in words: `5.4.4 (unknown host)`. */
	readonly comment: string;
	/** Every Diagnostic-Code, the one of SMTP first; empty: there is none. */
	readonly diagnostic: string;
	readonly remote: string | null;
	/** A mailer's own class of the failure, in words that rules know. */
	readonly hint: string;
};

/** Null where they say nothing. */
export function readRecipientFields(fields: readonly Field[]): RecipientFields | null {
	const original = addressOf(fieldOf(fields, 'original-recipient'));
	const final = addressOf(fieldOf(fields, 'final-recipient')) ?? addressOf(fieldOf(fields, 'x-actual-recipient'));
	const status = fieldOf(fields, 'status') ?? '';
	const read: RecipientFields = {
		named: final ?? original,
		original,
		action: fieldOf(fields, 'action') || null,
		status: /(?<![\d.])[245]\.\d{1,3}\.\d{1,3}(?![.\d])/.exec(status)?.[0] ?? null,
		comment: /\(([^()]{3,400})\)/.exec(status)?.[1] ?? '',
		diagnostic: diagnosticOf(fields),
		remote: hostOf(fieldOf(fields, 'remote-mta')),
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
export function hostOf(value: string | null): string | null {
	const name = /^[[(<]?([\p{L}\d](?:[\p{L}\d._:-]{0,250}[\p{L}\d])?)/u.exec(withoutType(value ?? ''))?.[1];
	return name?.toLowerCase() ?? null;
}

/** The address that was sent to, where it is another one: by its field, or by what Postfix tells people of an alias. */
export function sentToOf(original: string | null, recipient: string | null, paragraphs: string): string | null {
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

/** What happened. Mailers leave the action out and use words that RFC 3464 does not know; then code and subject tell. */
export function actionOf(
	{action, status}: Pick<RecipientFields, 'action' | 'status'>,
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
export function specific(enhanced: string | null): string | null {
	return enhanced === null || /\.0\.0$/.test(enhanced) ? null : enhanced;
}

import {isMessageId} from '../mail/message.ts';
import {fieldValue, readSource, type Source, type SourceField} from '../mail/source.ts';
import type {Body} from './body-writer.ts';
import {withoutLastLines, writeRelaxed} from './canonical.ts';
import {dateField, type Stamp, signed, stampFields} from './compose.ts';
import {type SigningKey, signedFields} from './dkim.ts';
import {asciiField, type HeaderField, headerField} from './header.ts';
import {sevenBit} from './seven-bit.ts';

/** What one recipient's mail gets in addition to what its program wrote. */
export type Submitted = Stamp & {
	/** If the mail has no Message-ID of its own. */
	readonly messageIdHeader: string;
	readonly date: number;
	/** Whether the opt-out is about a topic: then ours is the only one. */
	readonly hasTopic: boolean;
};

// RFC 5322 §3.3.
const date = /^(?:[a-z]{3}, *)?\d{1,2} +[a-z]{3} +\d{4} +\d\d:\d\d(?::\d\d)? +(?:[+-]\d{4}|[a-z]{1,5})\b/i;
const longestSubject = 998;
/** As signatures name them. */
const spellings = new Map(signedFields.map(name => [name.toLowerCase(), name]));
const ours: ReadonlySet<string> = new Set(['feedback-id', 'cfbl-address', 'cfbl-feedback-id', 'x-mailctl-ref']);

/**
 * The bytes of one recipient's mail that was submitted whole: what its program wrote, 7-bit, with our stamp, signed by
 * every key. Its own List-Unsubscribe stays, unless the mail names a topic. Also returns the subject, not decoded.
 *
 * @throws where `readSource` does not take the source: it was read before it was stored.
 */
export function composeSubmitted(
	source: Buffer,
	submitted: Submitted,
	signing: readonly SigningKey[],
	now: number,
): {readonly mail: Buffer; readonly subject: string} {
	const read = readSource(sevenBit(source));
	if (!read.ok) {
		throw new Error(`The submitted mail cannot be read: ${read.fault}.`);
	}
	const {fields, body} = read.source;
	const [subject] = fields.filter(({name}) => name === 'subject').map(fieldValue);
	return {
		mail: signed(fieldsOf(read.source, submitted), bodyOf(body), signing, now),
		subject: (subject ?? '').slice(0, longestSubject),
	};
}

function fieldsOf({fields}: Source, submitted: Submitted): HeaderField[] {
	const has = (name: string, isGood: (value: string) => boolean = () => true) =>
		fields.some(field => field.name === name && isGood(fieldValue(field)));
	const hasDate = has('date', value => date.test(value) && !Number.isNaN(Date.parse(value)));
	const hasId = has('message-id', isMessageId);
	const keepsOptOut = has('list-unsubscribe') && !submitted.hasTopic;
	const isOptOut = (name: string) => /^list-unsubscribe(?:-post)?$/i.test(name);
	const isKept = ({name}: SourceField) =>
		!ours.has(name) &&
		(hasDate || name !== 'date') &&
		(hasId || name !== 'message-id') &&
		(keepsOptOut || !isOptOut(name));
	return [
		...fields.filter(isKept).map(({name, line}) => ({name: spellings.get(name) ?? name, line})),
		...(hasDate ? [] : [dateField(submitted.date)]),
		...(hasId ? [] : [asciiField('Message-ID', `<${submitted.messageIdHeader}>`)]),
		...stampFields(submitted).filter(({name}) => !keepsOptOut || !isOptOut(name)),
		...(has('mime-version') ? [] : [headerField('MIME-Version', ['1.0'])]),
	];
}

/** Ends with CRLF, as relaxed form wants it. */
function bodyOf(body: Buffer): Body {
	const octets = body.length === 0 || body.subarray(-2).equals(lineEnd) ? body : Buffer.concat([body, lineEnd]);
	const canonical = Buffer.allocUnsafe(octets.length);
	return {octets, canonical: withoutLastLines(canonical.subarray(0, writeRelaxed(octets, canonical, 0)))};
}

const lineEnd = Buffer.from('\r\n');

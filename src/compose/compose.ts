import {addedValue} from '../mail/added-header.ts';
import {withoutLastLines, writeRelaxed} from '../mail/dkim-canonical.ts';
import {isMessageId} from '../mail/message.ts';
import {fieldValue, readSource, type Source, type SourceField} from '../mail/source.ts';
import {type Body, BodyWriter, letterBody} from './body-writer.ts';
import {dkimSignatures, type SigningKey, signedFields} from './dkim.ts';
import {
	addedField,
	addressList,
	asciiField,
	type HeaderField,
	headerField,
	type Letter,
	mailbox,
	unstructured,
} from './header-field.ts';
import {sevenBit} from './seven-bit.ts';

type Compose = (letter: Letter, signing: readonly SigningKey[], now: number) => Buffer;

/** Makes a composer for one thread: it keeps its memory and what texts have in common from mail to mail. */
export function createCompose(): Compose {
	const bodies = new BodyWriter();
	/**
	 * The bytes of one recipient's mail: MIME with CRLF line ends only, 7-bit (except for a UTF-8 local part, see
	 * `needsSmtputf8`), no line over 998 octets, signed by every key. The buffer owns its ArrayBuffer, so it can be
	 * transferred. To compose a letter again changes only the signatures' time (`now`, milliseconds).
	 */
	return (letter, signing, now) => {
		const entity = letterBody(letter);
		const {octets, canonical} = bodies.write(entity.body);
		const fields = [...letterFields(letter), ...entity.fields];
		return signed(fields, {octets, canonical}, signing, now);
	};
}

/**
 * The bytes of a mail, signed by every key (`now`, milliseconds). The buffer owns its ArrayBuffer, so it can be
 * transferred.
 */
function signed(
	fields: readonly HeaderField[],
	{octets, canonical}: Body,
	signing: readonly SigningKey[],
	now: number,
): Buffer {
	const signatures = dkimSignatures(fields, canonical, signing, now);
	const head = `${[...signatures, ...fields].map(({line}) => `${line}\r\n`).join('')}\r\n`;
	const headLength = Buffer.byteLength(head);
	// A slice of the shared pool could not be transferred to another thread.
	const mail = Buffer.allocUnsafeSlow(headLength + octets.length);
	mail.write(head, 'utf8');
	mail.set(octets, headLength);
	return mail;
}

function letterFields(letter: Letter): HeaderField[] {
	const {replyTo, cc, extras} = letter;
	const {toName = null, replyToName = null, headers = []} = extras;
	return [
		dateField(letter.date),
		headerField('From', mailbox(letter.from.address, letter.from.name)),
		headerField('To', mailbox(letter.to, toName)),
		...(cc.length > 0 ? [headerField('Cc', addressList(cc))] : []),
		...(replyTo === null ? [] : [headerField('Reply-To', mailbox(replyTo, replyToName))]),
		asciiField('Message-ID', `<${letter.messageIdHeader}>`),
		headerField('Subject', unstructured(letter.subject)),
		...stampFields(letter),
		...headers.map(([name, value]) => addedField(name, value)),
		// RFC 3834 §5: no responder answers it.
		...(addedValue(headers, 'Auto-Submitted') ? [] : [headerField('Auto-Submitted', ['auto-generated'])]),
		headerField('MIME-Version', ['1.0']),
	];
}

/** RFC 5322 §3.3; it has no zone name but as obsolete syntax. */
function dateField(date: number): HeaderField {
	return headerField('Date', [new Date(date).toUTCString().replace('GMT', '+0000')]);
}

/** What identifies the recipient in opt-outs, complaints and reports. */
export type Stamp = Pick<Letter, 'listUnsubscribe' | 'feedbackId' | 'cfblAddress' | 'ref'>;

function stampFields({listUnsubscribe, feedbackId, cfblAddress, ref}: Stamp): HeaderField[] {
	const ways = [`<${listUnsubscribe.url}>`];
	if (listUnsubscribe.mailto !== null) {
		ways.push(`<mailto:${listUnsubscribe.mailto}?subject=unsubscribe>`);
	}
	return [
		asciiField('List-Unsubscribe', ...ways.map((way, index) => (index < ways.length - 1 ? `${way},` : way))),
		headerField('List-Unsubscribe-Post', ['List-Unsubscribe=One-Click']),
		...(feedbackId === null ? [] : [asciiField('Feedback-ID', feedbackId)]),
		...(cfblAddress === null ? [] : cfblFields(cfblAddress, ref)),
		asciiField('X-Mailctl-Ref', ref),
	];
}

/** RFC 9477: reports identify the recipient by its token, even if they omit the rest of the header. */
function cfblFields(address: string, ref: string): HeaderField[] {
	return [asciiField('CFBL-Address', `${address};`, 'report=arf'), asciiField('CFBL-Feedback-ID', ref)];
}

/** What one recipient's mail gets in addition to what its program wrote. */
type Submitted = Stamp & {
	/** If the mail has no Message-ID of its own. */
	readonly messageIdHeader: string;
	readonly date: number;
	/** Whether the opt-out is about a topic: then ours is the only one. */
	readonly hasTopic: boolean;
};

// RFC 5322 §3.3.
const date = /^(?:[a-z]{3}, *)?\d{1,2} +[a-z]{3} +\d{4} +\d\d:\d\d(?::\d\d)? +(?:[+-]\d{4}|[a-z]{1,5})\b/i;
const maxSubjectLength = 998;
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
		subject: (subject ?? '').slice(0, maxSubjectLength),
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

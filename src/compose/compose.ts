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
	mailbox,
	type RenderedMessage,
	unstructured,
} from './header-field.ts';
import {sevenBit} from './seven-bit.ts';

type Compose = (message: RenderedMessage, signing: readonly SigningKey[], now: number) => Buffer;

/**
 * Creates a composer for one thread. It reuses its memory, and caches what messages have in common.
 *
 * This is the main file of the folder, which turns a rendered letter or a submitted message into the bytes to send:
 * header, MIME body and DKIM signatures. It relies on `mail` and `kit` only. It does no I/O, and the same input always
 * gives the same bytes, except for the signatures' time.
 */
export function createCompose(): Compose {
	const bodies = new BodyWriter();
	/**
	 * Returns the bytes of one recipient's message: MIME with CRLF line ends, 7-bit (except for a UTF-8 local part, see
	 * `needsSmtputf8`), no line over 998 octets, signed with every key. The buffer owns its ArrayBuffer, so it can be
	 * transferred. Composing a letter again changes only the signatures' time (`now`, in milliseconds).
	 */
	return (message, signing, now) => {
		const entity = letterBody(message);
		const {octets, canonical} = bodies.write(entity.body);
		const fields = [...letterFields(message), ...entity.fields];
		return signMessage(fields, {octets, canonical}, signing, now);
	};
}

/**
 * Returns the bytes of a message, signed with every key (`now` in milliseconds). The buffer owns its ArrayBuffer, so
 * that it can be transferred.
 */
function signMessage(
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

function letterFields(message: RenderedMessage): HeaderField[] {
	const {replyTo, cc, extras} = message;
	const {toName = null, replyToName = null, headers = []} = extras;
	return [
		dateField(message.date),
		headerField('From', mailbox(message.from.address, message.from.name)),
		headerField('To', mailbox(message.to, toName)),
		...(cc.length > 0 ? [headerField('Cc', addressList(cc))] : []),
		...(replyTo === null ? [] : [headerField('Reply-To', mailbox(replyTo, replyToName))]),
		asciiField('Message-ID', `<${message.messageIdHeader}>`),
		headerField('Subject', unstructured(message.subject)),
		...stampFields(message),
		...headers.map(([name, value]) => addedField(name, value)),
		// RFC 3834 §5: automatic responders do not reply to it.
		...(addedValue(headers, 'Auto-Submitted') ? [] : [headerField('Auto-Submitted', ['auto-generated'])]),
		headerField('MIME-Version', ['1.0']),
	];
}

/** RFC 5322 §3.3. Zone names are obsolete syntax. */
function dateField(date: number): HeaderField {
	return headerField('Date', [new Date(date).toUTCString().replace('GMT', '+0000')]);
}

/** The fields that identify the recipient in opt-outs, complaints and reports. */
export type Stamp = Pick<RenderedMessage, 'listUnsubscribe' | 'feedbackId' | 'cfblAddress' | 'ref'>;

function stampFields({listUnsubscribe, feedbackId, cfblAddress, ref}: Stamp): HeaderField[] {
	const uris = [`<${listUnsubscribe.url}>`];
	if (listUnsubscribe.mailto !== null) {
		uris.push(`<mailto:${listUnsubscribe.mailto}?subject=unsubscribe>`);
	}
	return [
		asciiField('List-Unsubscribe', ...uris.map((uri, index) => (index < uris.length - 1 ? `${uri},` : uri))),
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

/** What is added to a submitted message for one recipient. */
type Submitted = Stamp & {
	/** Used if the message has no Message-ID of its own. */
	readonly messageIdHeader: string;
	readonly date: number;
	/** Whether the opt-out is for a topic. Then only mailctl's List-Unsubscribe is sent. */
	readonly hasTopic: boolean;
};

// RFC 5322 §3.3.
const datePattern = /^(?:[a-z]{3}, *)?\d{1,2} +[a-z]{3} +\d{4} +\d\d:\d\d(?::\d\d)? +(?:[+-]\d{4}|[a-z]{1,5})\b/i;
const maxSubjectLength = 998;
/** The field names as signatures spell them, by their lower-case form. */
const spellings = new Map(signedFields.map(name => [name.toLowerCase(), name]));
const ownFields: ReadonlySet<string> = new Set(['feedback-id', 'cfbl-address', 'cfbl-feedback-id', 'x-mailctl-ref']);

/**
 * Returns the bytes of a submitted message for one recipient: the program's own text as 7-bit, plus the stamp, signed
 * with every key. Its own List-Unsubscribe remains, unless the message has a topic. Also returns the undecoded subject.
 *
 * @throws if `readSource` rejects the source, which was checked before it was stored.
 */
export function composeSubmitted(
	source: Buffer,
	submitted: Submitted,
	signing: readonly SigningKey[],
	now: number,
): {readonly mail: Buffer; readonly subject: string} {
	const parsed = readSource(sevenBit(source));
	if (!parsed.ok) {
		throw new Error(`The submitted message cannot be read: ${parsed.problem}.`);
	}
	const {fields, body} = parsed.source;
	const [subject] = fields.filter(({name}) => name === 'subject').map(fieldValue);
	return {
		mail: signMessage(submittedFields(parsed.source, submitted), toBody(body), signing, now),
		subject: (subject ?? '').slice(0, maxSubjectLength),
	};
}

function submittedFields({fields}: Source, submitted: Submitted): HeaderField[] {
	const has = (name: string, isValid: (value: string) => boolean = () => true) =>
		fields.some(field => field.name === name && isValid(fieldValue(field)));
	const hasDate = has('date', value => datePattern.test(value) && !Number.isNaN(Date.parse(value)));
	const hasId = has('message-id', isMessageId);
	const shouldRetainOptOut = has('list-unsubscribe') && !submitted.hasTopic;
	const isOptOut = (name: string) => /^list-unsubscribe(?:-post)?$/i.test(name);
	const isRetained = ({name}: SourceField) =>
		!ownFields.has(name) &&
		(hasDate || name !== 'date') &&
		(hasId || name !== 'message-id') &&
		(shouldRetainOptOut || !isOptOut(name));
	return [
		...fields.filter(isRetained).map(({name, line}) => ({name: spellings.get(name) ?? name, line})),
		...(hasDate ? [] : [dateField(submitted.date)]),
		...(hasId ? [] : [asciiField('Message-ID', `<${submitted.messageIdHeader}>`)]),
		...stampFields(submitted).filter(({name}) => !shouldRetainOptOut || !isOptOut(name)),
		...(has('mime-version') ? [] : [headerField('MIME-Version', ['1.0'])]),
	];
}

/** Adds a final CRLF, which the relaxed form requires. */
function toBody(body: Buffer): Body {
	const octets = body.length === 0 || body.subarray(-2).equals(lineEnd) ? body : Buffer.concat([body, lineEnd]);
	const canonical = Buffer.allocUnsafe(octets.length);
	return {octets, canonical: withoutLastLines(canonical.subarray(0, writeRelaxed(octets, canonical, 0)))};
}

const lineEnd = Buffer.from('\r\n');

import {letterBody} from './body.ts';
import {type Body, createBodyWriter} from './body-writer.ts';
import {dkimSignatures, type SigningKey} from './dkim.ts';
import {unstructured} from './encoded-word.ts';
import {asciiField, type HeaderField, headerField} from './header.ts';
import type {Letter} from './letter.ts';
import {addressList, mailbox} from './mailbox.ts';

type Compose = (letter: Letter, signing: readonly SigningKey[], now: number) => Buffer;

/** Makes a composer for one thread: it keeps its memory and what texts have in common from mail to mail. */
export function createCompose(): Compose {
	const writeBody = createBodyWriter();
	/**
	 * The bytes of one recipient's mail: MIME with CRLF line ends only, 7-bit (except for a UTF-8 local part, see
	 * `needsSmtputf8`), no line over 998 octets, signed by every key. The buffer owns its ArrayBuffer, so it can be
	 * transferred. To compose a letter again changes only the signatures' time (`now`, milliseconds).
	 */
	return (letter, signing, now) => {
		const entity = letterBody(letter);
		const {octets, canonical} = writeBody(entity.body);
		const fields = [...letterFields(letter), ...entity.fields];
		return signed(fields, {octets, canonical}, signing, now);
	};
}

/** The bytes of a mail, signed by every key (`now`, milliseconds). The buffer owns its ArrayBuffer, so it can be transferred. */
export function signed(
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
	const {replyTo, cc} = letter;
	return [
		dateField(letter.date),
		headerField('From', mailbox(letter.from.address, letter.from.name)),
		headerField('To', mailbox(letter.to, null)),
		...(cc.length > 0 ? [headerField('Cc', addressList(cc))] : []),
		...(replyTo === null ? [] : [headerField('Reply-To', mailbox(replyTo, null))]),
		asciiField('Message-ID', `<${letter.messageIdHeader}>`),
		headerField('Subject', unstructured(letter.subject)),
		...stampFields(letter),
		// RFC 3834 §5: no responder answers it.
		headerField('Auto-Submitted', ['auto-generated']),
		headerField('MIME-Version', ['1.0']),
	];
}

/** RFC 5322 §3.3; it has no zone name but as obsolete syntax. */
export function dateField(date: number): HeaderField {
	return headerField('Date', [new Date(date).toUTCString().replace('GMT', '+0000')]);
}

/** What identifies the recipient in opt-outs, complaints and reports. */
export type Stamp = Pick<Letter, 'listUnsubscribe' | 'feedbackId' | 'cfblAddress' | 'ref'>;

export function stampFields({listUnsubscribe, feedbackId, cfblAddress, ref}: Stamp): HeaderField[] {
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

import {type Field, type Part, readFields, withLineFeeds} from '../mime.ts';

/** A bounce's text: what the daemon says, and the mail or header that it gives back below. */
type Split = {readonly said: string; readonly returned: string};

// Lines after which daemons put the mail that they give back (R3.12).
const marker = new RegExp(
	[
		'^[ \\t>]{0,8}[-=_*#][-=_*# ]{1,80}(?:' +
			[
				'below (?:this line )?is a copy',
				'this is (?:a copy of|the body of)',
				'included is a copy',
				'original (?:mail|message)',
				'the (?:original message|header of the original|body of the message|returned message)',
				'(?:undelivered|unsent|returned|undeliverable|rejected|failed|bounced) (?:mail|message)',
				'message (?:header|text|body|non-deliverable)',
				'headers? (?:of the original|follow)',
				'(?:returned|original|undelivered) mail follows',
				'non-delivered message',
				'copy of (?:the|your) (?:original )?message',
				'your (?:original )?message',
				'message d.origine',
				'ursprüngliche nachricht',
				'originalnachricht',
				'mensaje original',
				'messaggio originale',
				'mensagem original',
				'元のメッセージ',
			].join('|') +
			').{0,80}$',
		'^[ \\t]*(?:' +
			[
				'original message (?:headers?|follows|as follows|text).{0,20}',
				'original (?:message|mail):',
				'message headers? follow.{0,10}',
				'(?:the )?(?:original|returned|undelivered|rejected) message (?:follows|is below|was|reads as follows).{0,20}',
				'below (?:this line )?is (?:a copy of|the) .{0,60}',
				'this is a copy of the (?:original )?(?:message|headers).{0,60}',
				'a copy of (?:the|your) (?:original )?message .{0,60}',
				'(?:included|attached|reproduced) (?:below )?is (?:a copy of )?(?:the|your) (?:original )?message.{0,60}',
				'the (?:first|following) .{0,40} of (?:the|your) (?:original )?message (?:follow|are).{0,40}',
				'your original message (?:is|was|reads|headers|follows).{0,60}',
				'here is (?:a copy|your) .{0,60}',
				'en-t[êe]tes? (?:du|de) message d.origine.{0,20}',
				'urspr[üu]ngliche nachrichtenk[öo]pfzeilen.{0,20}',
				'intestazioni originali del messaggio.{0,20}',
				'encabezados (?:del mensaje )?originales.{0,20}',
				'cabeçalhos (?:da mensagem )?originais.{0,20}',
				'ursprungliga meddelandehuvuden.{0,20}',
				'oorspronkelijke berichtkoppen.{0,20}',
				'元のメッセージ.{0,20}',
			].join('|') +
			')[ \\t]*$',
	].join('|'),
	'imu',
);

// Every mail has one of these and no daemon's sentence begins with it.
const trace = /^(?:Return-Path|Received|DKIM-Signature|DomainKey-Signature|ARC-Seal|X-Received|Delivered-To)[ \t]?:/im;
const ownField = /^(?:Message-ID|MIME-Version|Content-Type|X-Mailer|X-[\w-]{1,40})[ \t]?:/i;
const anyField =
	/^(?:From|To|Cc|Subject|Date|Reply-To|Sender|Message-ID|MIME-Version|Content-Type|Content-Transfer-Encoding|References|In-Reply-To|X-[\w-]{1,40})[ \t]?:/i;

/** Cuts off what a bounce gives back, so that its words are not taken for the daemon's. */
export function splitReturned(text: string): Split {
	const cuts = [marker.exec(text)?.index, trace.exec(text)?.index, headerAt(text)].filter(at => at !== undefined);
	const at = Math.min(text.length, ...cuts);
	// A mail that begins with such a line says nothing itself.
	return text.slice(0, at).trim() === ''
		? {said: text, returned: ''}
		: {said: text.slice(0, at), returned: text.slice(at)};
}

/** Where a block of three header fields begins, at least one of them not of a quoted "To, Subject, Sent". */
function headerAt(text: string): number | undefined {
	let start = 0;
	let fields = 0;
	let own = false;
	let at = 0;
	for (const line of text.split('\n')) {
		if (anyField.test(line)) {
			start = fields === 0 ? at : start;
			fields++;
			own ||= ownField.test(line);
			if (fields >= 3 && own) {
				return start;
			}
		} else if (!/^[ \t]+\S/.test(line) || fields === 0) {
			fields = 0;
			own = false;
		}
		at += line.length + 1;
	}
	return undefined;
}

const longestHeader = 64 * 1024;
const mostMails = 5;

/** Whether a part is the mail that a report is about, or its header. */
export function isReturned(type: string): boolean {
	return /^(?:message\/(?:rfc822|global|global-headers|rfc822-headers|partial)|text\/rfc822(?:-headers?)?)$/.test(type);
}

/**
 * The header fields of each returned mail of a report. Its body is never looked at (R3.9). Where no part says that it is one, the
 * files that begin like a mail count.
 */
export function returnedHeaders(leaves: readonly Part[]): Field[][] {
	return returnedParts(leaves).slice(0, mostMails).map(headerOf);
}

/** The parts that are mails, by their types, else by their first lines. */
export function returnedParts(leaves: readonly Part[]): Part[] {
	const named = leaves.filter(({type}) => isReturned(type));
	return named.length > 0 ? named : leaves.filter(isMailPart);
}

/** A mail that is attached as a file, or as a text behind the first part. */
export function isMailPart(part: Part, at: number): boolean {
	return (part.type.startsWith('application/') || (at > 0 && part.type === 'text/plain')) && beginsLikeMail(part);
}

function beginsLikeMail(part: Part): boolean {
	return new Set(headerOf(part).flatMap(({name}) => (everyMails.has(name) ? [name] : []))).size >= 2;
}

const everyMails: ReadonlySet<string> = new Set([
	'from',
	'to',
	'date',
	'subject',
	'message-id',
	'received',
	'mime-version',
]);

function headerOf(part: Part): Field[] {
	const bytes = withLineFeeds(part.body().subarray(0, longestHeader));
	const start = bytes.findIndex(byte => byte > 0x20);
	const header = bytes.subarray(Math.max(0, start));
	const end = header.indexOf('\n\n');
	return readFields(end === -1 ? header : header.subarray(0, end));
}

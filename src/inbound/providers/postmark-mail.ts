import {decodeWords} from '../../mail/decode.ts';
import {collectLeaves, type Field, fileNameOf, findField, type Part, readMail} from '../reports/mime.ts';

/** Fields that Postmark writes itself, or accepts under another name. */
const omittedFields =
	/^(?:from|sender|to|cc|bcc|reply-to|subject|date|mime-version|content-.*|dkim-signature|return-path|received|x-pm-.*)$/;
const metadataPrefix = 'x-pm-metadata-';

/**
 * Converts a message to one recipient for Postmark's API, which does not accept MIME:
 * https://postmarkapp.com/developer/api/email-api. Postmark creates the parts, `To` and the signature anew, while
 * `X-PM-KeepID` preserves the Message-ID. Returns the problem as a text if something would be lost.
 */
export function postmarkMail(data: Buffer, to: string): object | string {
	const {root, fault: problem} = readMail(data, data.length);
	if (problem !== null) {
		return problem;
	}
	const {fields} = root;
	const textOf = (name: string) => decodeWords(findField(fields, name) ?? '');
	const leaves = collectLeaves(root);
	const bodyOf = (type: string) =>
		leaves.find(part => part.type === type && !/^attachment/i.test(partField(part, 'disposition')));
	const [html, text] = [bodyOf('text/html'), bodyOf('text/plain')];
	const headers = fields
		.filter(({name}) => !omittedFields.test(name))
		.map(({name, value}) => ({Name: capitalizeName(name), Value: value}));
	const mailFields = {
		From: parseMailbox(findField(fields, 'from') ?? ''),
		To: to,
		ReplyTo: parseMailbox(findField(fields, 'reply-to') ?? ''),
		Subject: textOf('subject'),
		HtmlBody: html?.text() ?? '',
		TextBody: text?.text() ?? '',
		MessageStream: textOf('x-pm-message-stream'),
	};
	return {
		...Object.fromEntries(Object.entries(mailFields).filter(([, value]) => value !== '')),
		Headers: [...headers, {Name: 'X-PM-KeepID', Value: 'true'}],
		Metadata: Object.fromEntries(fields.flatMap(toMetadata)),
		Attachments: leaves.filter(part => part !== html && part !== text).map(toAttachment),
	};
}

/**
 * Decodes a mailbox. An encoded name is quoted if it contains special characters of address lists (RFC 5322 §3.2.3).
 */
function parseMailbox(value: string): string {
	const [, encoded, address] = /^((?:=\?\S+\?=\s+)+)(<[^<>]+>)$/.exec(value.trim()) ?? [];
	const name = decodeWords(encoded ?? '').trim();
	return /[()<>[\]:;@\\,."]/.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}" ${address}` : decodeWords(value);
}

const partField = ({fields}: Part, name: string) => findField(fields, `content-${name}`) ?? '';

/** Capitalizes a field name that is in lower case. */
const capitalizeName = (name: string) => name.replace(/(?:^|-)[a-z]/g, letter => letter.toUpperCase());

function toMetadata({name, value}: Field): Array<readonly [string, string]> {
	return name.startsWith(metadataPrefix) ? [[name.slice(metadataPrefix.length), value]] : [];
}

function toAttachment(part: Part, index: number): object {
	const id = partField(part, 'id').replace(/^<|>$/g, '');
	return {
		Name: fileNameOf(part) || `part-${index + 1}`,
		Content: part.body().toString('base64'),
		ContentType: part.type,
		...(id !== '' && {ContentID: `cid:${id}`}),
	};
}

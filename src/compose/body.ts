import type {Attachment} from '../mail/message.ts';
import {base64Lines} from './base64-lines.ts';
import {disposition} from './disposition.ts';
import {asciiField, type HeaderField, headerField} from './header.ts';
import type {Letter} from './letter.ts';
import {quotedPrintable} from './quoted-printable.ts';

/** A MIME entity: its own fields, and its body in pieces (ASCII text or bytes). */
type Entity = {readonly fields: readonly HeaderField[]; readonly body: ReadonlyArray<string | Uint8Array>};

/** The body of a letter and the fields that describe it: text and html as alternatives, attachments beside them. */
export function letterBody(letter: Letter): {fields: readonly HeaderField[]; body: Buffer} {
	// A boundary with `=_` occurs in no quoted-printable and no base64 text (RFC 2045 §6.7), so none needs a search.
	const boundary = `=_${letter.ref.replace(/[^0-9A-Za-z]/g, '').slice(0, 45)}`;
	const html = textEntity('text/html', letter.html);
	const content =
		letter.text === null
			? html
			: multipart('alternative', `${boundary}_a`, [textEntity('text/plain', letter.text), html]);
	const {fields, body} =
		letter.attachments.length === 0
			? content
			: multipart('mixed', `${boundary}_m`, [content, ...letter.attachments.map(attachmentEntity)]);
	return {fields, body: join([...body, '\r\n'])};
}

function textEntity(type: string, text: string): Entity {
	return {
		fields: [
			headerField('Content-Type', [`${type};`, 'charset=utf-8']),
			headerField('Content-Transfer-Encoding', ['quoted-printable']),
		],
		body: [quotedPrintable(text)],
	};
}

function attachmentEntity({contentType, filename, content}: Attachment): Entity {
	const type = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/.test(contentType) ? contentType : 'application/octet-stream';
	return {
		fields: [
			asciiField('Content-Type', type),
			headerField('Content-Disposition', disposition(filename)),
			headerField('Content-Transfer-Encoding', ['base64']),
		],
		body: [base64Lines(content)],
	};
}

function multipart(subtype: string, boundary: string, parts: readonly Entity[]): Entity {
	return {
		fields: [headerField('Content-Type', [`multipart/${subtype};`, `boundary="${boundary}"`])],
		body: [
			...parts.flatMap(({fields, body}, index) => [
				`${index === 0 ? '' : '\r\n'}--${boundary}\r\n${fields.map(({line}) => `${line}\r\n`).join('')}\r\n`,
				...body,
			]),
			`\r\n--${boundary}--`,
		],
	};
}

function join(pieces: ReadonlyArray<string | Uint8Array>): Buffer {
	const output = Buffer.allocUnsafe(pieces.reduce((length, piece) => length + piece.length, 0));
	let at = 0;
	for (const piece of pieces) {
		if (typeof piece === 'string') {
			output.write(piece, at, 'latin1');
		} else {
			output.set(piece, at);
		}
		at += piece.length;
	}
	return output;
}

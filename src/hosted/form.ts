import {type Api, isPlain, refuseOtherBodies} from '../api/api-parts.ts';
import {apiError, formExpected} from '../api/errors.ts';
import {splitParts} from '../kit/multipart.ts';
import {utf8Text} from '../kit/text.ts';

/** The fields of a form that count everywhere; absent ones are null. */
export type Form = {
	readonly token: string | null;
	readonly action: string | null;
};

export const formTypes = ['application/x-www-form-urlencoded', 'multipart/form-data'] as const;

/**
 * Reads the fields of a submitted form of one of `formTypes`. One that cannot be read counts as empty: what a mail provider
 * posts says no more than the URL that it posts to (RFC 8058 §3.1), and must unsubscribe however it spells that.
 */
export function readFields(body: Uint8Array, contentType: string): readonly Field[] {
	return /^\s*multipart\//i.test(contentType)
		? (readMultipart(body, contentType) ?? [])
		: [...new URLSearchParams(utf8Text(body))].map(([name, value]) => ({name, value}));
}

/** The first of fields of one name counts. */
export function formOf(fields: readonly Field[]): Form {
	const textOf = (name: string) => {
		const field = fields.find(one => one.name === name);
		// A file is no text: it counts as a text that fits nothing.
		return field === undefined ? null : (field.value ?? '');
	};
	return {token: textOf('token'), action: textOf('action')};
}

/** A field of a form; one that came as a file has no value. */
export type Field = {readonly name: string; readonly value: string | null};

/**
 * The fields of a multipart/form-data body (RFC 7578), in their order; null if the type names no boundary. Reads what HTTP
 * clients and hand-written requests send: any boundary that is in use, also one that occurs in a value; a preamble; names
 * without quotes; further header fields; lines that end in LF only. The platform's parser refuses each of these.
 */
export function readMultipart(body: Uint8Array, contentType: string): Field[] | null {
	const boundary = parameterOf(contentType, 'boundary');
	if (boundary === undefined || boundary === '') {
		return null;
	}
	// A part without an end was cut off on its way.
	const parts = splitParts(Buffer.from(body), boundary, {unclosed: false});
	return parts.flatMap(part => fieldOf(part.toString().split('\n')) ?? []);
}

function fieldOf(lines: readonly string[]): Field | undefined {
	const empty = lines.findIndex(line => line === '' || line === '\r');
	const head = empty === -1 ? [] : lines.slice(0, empty);
	const disposition = head.find(line => /^content-disposition:/i.test(line));
	const name = disposition && parameterOf(disposition, 'name');
	if (disposition === undefined || name === undefined) {
		return undefined;
	}
	const isFile = parameterOf(disposition, 'filename') !== undefined;
	// The line end before a delimiter belongs to the delimiter.
	const value = lines
		.slice(empty + 1)
		.join('\n')
		.replace(/\r$/, '');
	return {name, value: isFile ? null : value};
}

function parameterOf(header: string, name: string): string | undefined {
	const [, quoted, plain] = new RegExp(`;[ \\t]*${name}=(?:"([^"]*)"|([^;\\s"]+))`, 'i').exec(header) ?? [];
	return quoted ?? plain;
}

export type Submitted = {readonly bytes: Uint8Array; readonly type: string};

/** A longer body than `bodyLimit` is no form of ours. */
export function acceptForms(api: Api, bodyLimit: number): void {
	api.removeAllContentTypeParsers();
	api.addContentTypeParser([...formTypes], {parseAs: 'buffer', bodyLimit}, (request, bytes, done) => {
		const type = request.headers['content-type'] ?? '';
		if (isPlain(request)) {
			done(null, {bytes: bytes as Buffer, type} satisfies Submitted);
		} else {
			done(apiError('unsupported_media_type', {message: formExpected}));
		}
	});
	refuseOtherBodies(api, formExpected);
}

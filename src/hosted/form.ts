import {splitParts} from '../kit/multipart.ts';
import {utf8Text} from '../kit/octets.ts';

/** The fields of a form that count here; absent ones are null. What else it has is of no interest. */
export type Form = {
	readonly token: string | null;
	readonly action: string | null;
};

export const formTypes = ['application/x-www-form-urlencoded', 'multipart/form-data'] as const;

/** A longer body is no form of ours, nor a one-click request. */
export const formLimit = 8 * 1024;

/**
 * Reads a submitted form of one of `formTypes`; the first of fields of one name counts. One that cannot be read counts as
 * empty: what a mail provider posts says no more than the URL that it posts to (RFC 8058 §3.1), and must unsubscribe
 * however it spells that.
 */
export function readForm(body: Uint8Array, contentType: string): Form {
	if (!/^\s*multipart\//i.test(contentType)) {
		const fields = new URLSearchParams(utf8Text(body));
		return {token: fields.get('token'), action: fields.get('action')};
	}
	const fields = readMultipart(body, contentType) ?? [];
	const textOf = (name: string) => {
		const field = fields.find(one => one.name === name);
		// A file is no text: it counts as a text that fits nothing.
		return field === undefined ? null : (field.value ?? '');
	};
	return {token: textOf('token'), action: textOf('action')};
}

/** A field of a form; one that came as a file has no value. */
type Field = {readonly name: string; readonly value: string | null};

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

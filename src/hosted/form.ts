import type {IncomingMessage} from 'node:http';
import type {FastifyRequest} from 'fastify';
import {type Api, isPlain, refuseOtherBodies} from '../api/api-parts.ts';
import {apiError, formExpected} from '../api/errors.ts';
import {splitParts} from '../kit/multipart.ts';
import {parseUrlencoded} from '../kit/urlencoded.ts';

/** The fields of a form that count everywhere; absent ones are null. */
export type Form = {
	readonly token: string | null;
	readonly action: string | null;
};

export const formTypes = ['application/x-www-form-urlencoded', 'multipart/form-data'] as const;

/** Our own forms have fewer: a choice for each public topic and a few more. Later fields are ignored. */
const maxFields = 2000;

/**
 * Reads the fields of a submitted form of one of `formTypes`. One that cannot be read counts as empty: what a mail
 * provider posts says no more than the URL that it posts to (RFC 8058 §3.1), and must unsubscribe however it spells
 * that.
 */
export function readFields(body: Uint8Array, contentType: string): readonly Field[] {
	return /^\s*multipart\//i.test(contentType)
		? (readMultipart(body, contentType) ?? [])
		: parseUrlencoded(body, maxFields).map(([name, value]) => ({name, value}));
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
 * The fields of a multipart/form-data body (RFC 7578), in their order; null if the type names no boundary. Reads what
 * HTTP clients and hand-written requests send: any boundary that is in use, also one that occurs in a value; a
 * preamble; names without quotes; further header fields; lines that end in LF only. The platform's parser refuses each
 * of these.
 */
export function readMultipart(body: Uint8Array, contentType: string): Field[] | null {
	const boundary = parameterOf(contentType, 'boundary');
	if (boundary === undefined || boundary === '') {
		return null;
	}
	// A part without an end was cut off on its way.
	const parts = splitParts(Buffer.from(body), boundary, {most: maxFields, unclosed: false});
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

/** Accepts forms of up to `limitFor` octets. */
export function acceptForms(api: Api, limitFor: (request: FastifyRequest) => number): void {
	api.removeAllContentTypeParsers();
	api.addContentTypeParser(
		[...formTypes],
		async (request: FastifyRequest, payload: IncomingMessage): Promise<Submitted> => {
			if (!isPlain(request)) {
				throw apiError('unsupported_media_type', {message: formExpected});
			}
			return {bytes: await readUpTo(limitFor(request), payload), type: request.headers['content-type'] ?? ''};
		},
	);
	refuseOtherBodies(api, formExpected);
}

/** Rejects a body as soon as it exceeds the limit; the rest is discarded. */
function readUpTo(limit: number, payload: IncomingMessage): Promise<Buffer> {
	return new Promise((resolve, reject) => {
		const chunks: Buffer[] = [];
		let length = 0;
		payload.on('data', (chunk: Buffer) => {
			length += chunk.length;
			if (length > limit) {
				chunks.length = 0;
				reject(apiError('payload_too_large'));
			} else {
				chunks.push(chunk);
			}
		});
		payload.on('end', () => resolve(Buffer.concat(chunks)));
		payload.on('error', () => reject(apiError('bad_request')));
	});
}

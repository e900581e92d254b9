import type {IncomingMessage} from 'node:http';
import type {FastifyRequest} from 'fastify';
import {type Api, isPlain, refuseOtherBodies} from '../api/api-parts.ts';
import {splitParts} from '../kit/multipart.ts';
import {parseUrlencoded} from '../kit/urlencoded.ts';
import {apiError, formExpected} from '../mail/api-error.ts';

/** The fields that all hosted forms share; `null` if absent. */
export type Form = {
	readonly token: string | null;
	readonly action: string | null;
};

export const formTypes = ['application/x-www-form-urlencoded', 'multipart/form-data'] as const;

/** Further fields are ignored. The hosted forms have fewer: one for each public topic, and a few more. */
const maxFields = 2000;

/**
 * Reads the fields of a submitted form of one of `formTypes`. A malformed form counts as empty: a one-click request is
 * identified by its URL alone (RFC 8058 §3.1), so it must unsubscribe even if its body is unusual.
 */
export function readFields(body: Uint8Array, contentType: string): readonly Field[] {
	return /^\s*multipart\//i.test(contentType)
		? (readMultipart(body, contentType) ?? [])
		: parseUrlencoded(body, maxFields).map(([name, value]) => ({name, value}));
}

/** Picks the fields of `Form`. If a name occurs several times, the first one counts. */
export function toForm(fields: readonly Field[]): Form {
	const textOf = (name: string) => {
		const field = fields.find(candidate => candidate.name === name);
		// An uploaded file has no text. It is read as '', which matches no token and no action.
		return field === undefined ? null : (field.value ?? '');
	};
	return {token: textOf('token'), action: textOf('action')};
}

/** A field of a form; `value` is `null` if it was uploaded as a file. */
export type Field = {readonly name: string; readonly value: string | null};

/**
 * Returns the fields of a multipart/form-data body (RFC 7578) in their order, or `null` if `contentType` has no
 * boundary. It is more lenient than the platform's parser, for the sake of unusual clients and hand-written requests.
 * It accepts a boundary that occurs in a value, a preamble, unquoted names, unknown header fields, and bare LF line
 * ends.
 */
export function readMultipart(body: Uint8Array, contentType: string): Field[] | null {
	const boundary = parseParameter(contentType, 'boundary');
	if (boundary === undefined || boundary === '') {
		return null;
	}
	// A part without a closing delimiter was truncated in transit, so it is dropped.
	const parts = splitParts(Buffer.from(body), boundary, {max: maxFields, acceptsUnclosed: false});
	return parts.flatMap(part => parseField(part.toString().split('\n')) ?? []);
}

function parseField(lines: readonly string[]): Field | undefined {
	const blankIndex = lines.findIndex(line => line === '' || line === '\r');
	const header = blankIndex === -1 ? [] : lines.slice(0, blankIndex);
	const disposition = header.find(line => /^content-disposition:/i.test(line));
	const name = disposition && parseParameter(disposition, 'name');
	if (disposition === undefined || name === undefined) {
		return undefined;
	}
	const isFile = parseParameter(disposition, 'filename') !== undefined;
	// The line end before a delimiter belongs to the delimiter.
	const value = lines
		.slice(blankIndex + 1)
		.join('\n')
		.replace(/\r$/, '');
	return {name, value: isFile ? null : value};
}

function parseParameter(header: string, name: string): string | undefined {
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

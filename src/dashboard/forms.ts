import multipart from '@fastify/multipart';
import type {FastifyInstance, FastifyReply, FastifyRequest} from 'fastify';
import {leaveAtEnd} from '../api/in-turn.ts';
import {Seats} from '../kit/turns.ts';
import {parseUrlencoded} from '../kit/urlencoded.ts';
import {apiError, unavailable} from '../mail/api-error.ts';
import type {Visit} from './route.ts';

// What a form sends, with a file or without.

/** Bytes: of a form, and of one with a file. */
export const formLimit = 1024 * 1024;
/** Bytes of a form that anybody may send, to log in. */
export const openFormLimit = 64 * 1024;
export const fileLimit = 32 * 1024 * 1024;

const maxFields = 100;
/** Forms with a file that are in memory at once. */
const maxUploads = 4;

type WithFile = {readonly form: URLSearchParams; readonly file: Visit['file']};

/** Lets the routes of a scope take forms. */
export async function readForms(scope: FastifyInstance): Promise<void> {
	const seats = new Seats(maxUploads);
	const limits = {fileSize: fileLimit, files: 1, fields: maxFields, fieldSize: formLimit};
	await scope.register(multipart, {limits});
	scope.addHook('preValidation', async (request, reply) => {
		if (request.isMultipart()) {
			checkUpload(request);
			hold(reply, seats.take('uploads'));
			request.body = await readParts(request);
		}
	});
	scope.addContentTypeParser<Buffer>(
		'application/x-www-form-urlencoded',
		{parseAs: 'buffer'},
		(_request, body, done) => {
			const fields = parseFields(body);
			done(fields === null ? apiError('payload_too_large', {message: tooManyFields}) : null, fields);
		},
	);
}

const tooManyFields = `A form has at most ${maxFields} fields.`;

/** The fields of a form without a file; `null` if there are too many. Anybody may send such a form, to log in. */
export function parseFields(body: Buffer): URLSearchParams | null {
	const fields = parseUrlencoded(body, maxFields + 1);
	return fields.length > maxFields ? null : new URLSearchParams(fields);
}

/** The fields of a query as it was sent, where a name may occur more than once; those beyond the limit are ignored. */
export function parseQuery({raw: {url = ''}}: FastifyRequest): URLSearchParams {
	const begin = url.indexOf('?');
	const query = Buffer.from(begin === -1 ? '' : url.slice(begin + 1), 'latin1');
	return new URLSearchParams(parseUrlencoded(query, maxFields));
}

/** Fastify does not limit the length of the stream of parts. Only forms that take a file are multipart. */
function checkUpload({headers, routeOptions}: FastifyRequest): void {
	if (routeOptions.bodyLimit !== fileLimit) {
		throw apiError('unsupported_media_type', {message: 'This form takes no file.'});
	}
	const {'content-length': length, 'content-type': type = ''} = headers;
	if (length === undefined || !/boundary=/i.test(type)) {
		throw apiError('bad_request', {message: 'A form with a file needs its Content-Length and a boundary.'});
	}
	if (Number(length) > fileLimit + formLimit) {
		throw apiError('payload_too_large');
	}
}

function hold(reply: FastifyReply, leave: (() => void) | undefined): void {
	if (leave === undefined) {
		throw unavailable();
	}
	leaveAtEnd(reply, leave);
}

async function readParts(request: FastifyRequest): Promise<WithFile> {
	const form = new URLSearchParams();
	let file: Visit['file'] = null;
	try {
		for await (const part of request.parts()) {
			if (part.type === 'file') {
				const content = await part.toBuffer();
				file = part.filename ? {name: part.filename, content} : null;
			} else if (typeof part.value === 'string') {
				form.append(part.fieldname, part.value);
			}
		}
	} catch (error) {
		throw apiError((error as {statusCode?: number}).statusCode === 413 ? 'payload_too_large' : 'bad_request');
	}
	return {form, file};
}

/** The fields; empty if the body is not a form, such as JSON. */
export function toForm(body: unknown): URLSearchParams {
	return body instanceof URLSearchParams ? body : (withFile(body)?.form ?? new URLSearchParams());
}

/** The file; null: none was chosen. */
export const fileOf = (body: unknown): Visit['file'] => withFile(body)?.file ?? null;

const withFile = (body: unknown): WithFile | undefined =>
	(body as WithFile | null | undefined)?.form instanceof URLSearchParams ? (body as WithFile) : undefined;

import multipart from '@fastify/multipart';
import type {FastifyInstance, FastifyReply, FastifyRequest} from 'fastify';
import {releaseOnClose} from '../api/in-turn.ts';
import {ConcurrencyLimit} from '../kit/turns.ts';
import {parseUrlencoded} from '../kit/urlencoded.ts';
import {apiError, unavailable} from '../mail/api-error.ts';
import type {Visit} from './route.ts';

// Reads submitted forms, with a file or without.

/** The maximum size of a form without its file, in bytes. */
export const formLimit = 1024 * 1024;
/** The maximum size of a form that anyone may submit, to sign in. */
export const openFormLimit = 64 * 1024;
export const fileLimit = 32 * 1024 * 1024;

const maxFields = 100;
/** How many forms with a file may be in memory at once. */
const maxUploads = 4;

type WithFile = {readonly form: URLSearchParams; readonly file: Visit['file']};

/** Makes the routes of a scope accept forms. */
export async function readForms(scope: FastifyInstance): Promise<void> {
	const seats = new ConcurrencyLimit(maxUploads);
	const limits = {fileSize: fileLimit, files: 1, fields: maxFields, fieldSize: formLimit};
	await scope.register(multipart, {limits});
	scope.addHook('preValidation', async (request, reply) => {
		if (request.isMultipart()) {
			checkUpload(request);
			holdSeat(reply, seats.take('uploads'));
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

const tooManyFields = `A form may have at most ${maxFields} fields.`;

/** Returns the fields of a form without a file, or `null` if it has too many: anyone may submit one, to sign in. */
export function parseFields(body: Buffer): URLSearchParams | null {
	const fields = parseUrlencoded(body, maxFields + 1);
	return fields.length > maxFields ? null : new URLSearchParams(fields);
}

/** Returns the fields of a query, in which a name may occur more than once. Fields beyond the limit are ignored. */
export function parseQuery({raw: {url = ''}}: FastifyRequest): URLSearchParams {
	const start = url.indexOf('?');
	const query = Buffer.from(start === -1 ? '' : url.slice(start + 1), 'latin1');
	return new URLSearchParams(parseUrlencoded(query, maxFields));
}

/** Limits the size of a multipart form, which Fastify does not. Only forms with a file may be multipart. */
function checkUpload({headers, routeOptions}: FastifyRequest): void {
	if (routeOptions.bodyLimit !== fileLimit) {
		throw apiError('unsupported_media_type', {message: 'This form does not accept a file.'});
	}
	const {'content-length': length, 'content-type': type = ''} = headers;
	if (length === undefined || !/boundary=/i.test(type)) {
		throw apiError('bad_request', {message: 'A form with a file requires a Content-Length and a boundary.'});
	}
	if (Number(length) > fileLimit + formLimit) {
		throw apiError('payload_too_large');
	}
}

function holdSeat(reply: FastifyReply, leave: (() => void) | undefined): void {
	if (leave === undefined) {
		throw unavailable();
	}
	releaseOnClose(reply, leave);
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

/** Returns the fields of a form; none if the body is not a form, such as JSON. */
export function toForm(body: unknown): URLSearchParams {
	return body instanceof URLSearchParams ? body : (withFile(body)?.form ?? new URLSearchParams());
}

/** Returns the file of a form, or `null` if none was chosen. */
export const fileOf = (body: unknown): Visit['file'] => withFile(body)?.file ?? null;

const withFile = (body: unknown): WithFile | undefined =>
	(body as WithFile | null | undefined)?.form instanceof URLSearchParams ? (body as WithFile) : undefined;

import multipart from '@fastify/multipart';
import type {FastifyInstance} from 'fastify';
import type {Visit} from './route.ts';

// What a form sends, with a file or without.

/** Bytes: of a form, and of one with a file. */
export const formLimit = 1024 * 1024;
export const fileLimit = 32 * 1024 * 1024;

const mostFields = 100;

/** Lets the routes of a scope take forms. */
export async function readForms(scope: FastifyInstance): Promise<void> {
	const limits = {fileSize: fileLimit, files: 1, fields: mostFields, fieldSize: formLimit};
	await scope.register(multipart, {limits, attachFieldsToBody: 'keyValues', onFile});
	scope.addContentTypeParser<string>('application/x-www-form-urlencoded', {parseAs: 'string'}, (_request, body, done) =>
		done(null, new URLSearchParams(body)),
	);
}

type Uploaded = NonNullable<Visit['file']>;

// The value of the field is then the file with its name, which the fields of the body do not have.
async function onFile(
	this: unknown,
	part: {filename: string; toBuffer: () => Promise<Buffer>; value?: unknown},
): Promise<void> {
	part.value = {name: part.filename, content: await part.toBuffer()} satisfies Uploaded;
}

/** The fields. */
export function formOf(body: unknown): URLSearchParams {
	if (body instanceof URLSearchParams) {
		return body;
	}
	const form = new URLSearchParams();
	for (const [name, value] of Object.entries(body ?? {})) {
		for (const one of [value].flat()) {
			if (typeof one === 'string') {
				form.append(name, one);
			}
		}
	}
	return form;
}

/** The file; null: none was chosen. */
export function fileOf(body: unknown): Visit['file'] {
	const found = Object.values(body instanceof URLSearchParams ? {} : (body ?? {})).find(isUploaded);
	return found === undefined || found.name === '' ? null : found;
}

function isUploaded(value: unknown): value is Uploaded {
	return typeof value === 'object' && value !== null && 'content' in value && Buffer.isBuffer(value.content);
}

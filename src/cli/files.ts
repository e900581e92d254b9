import {parseExact} from '../kit/exact-json.ts';
import {openRegular, RefusedFileError, readRegular} from '../kit/regular-file.ts';
import {utf8Text} from '../kit/text.ts';
import {CliError} from './fault.ts';

/** What is read whole: variables, attachments, a mail. None of them can be larger and be of use. */
const maxOctets = 32 * 1024 ** 2;

/** A file that the command line names; `-` is standard input. Bad data (65) where it is missing or too large. */
export async function readInput(name: string): Promise<Buffer> {
	if (name === '-') {
		return await readStandardInput();
	}
	try {
		return await readRegular(name, maxOctets, 'follow');
	} catch (error) {
		throw inputFault(error, name);
	}
}

/**
 * Returns the value of an option that may be a secret. `-` reads it from standard input, which keeps it out of the
 * process list.
 */
export async function readSecret(value: string): Promise<string> {
	return value === '-' ? (await readStandardInput()).toString().trim() : value;
}

async function readStandardInput(): Promise<Buffer> {
	const chunks: Buffer[] = [];
	let length = 0;
	for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
		chunks.push(chunk);
		length += chunk.length;
		if (length > maxOctets) {
			throw new CliError('data', `standard input is larger than ${maxOctets} octets`, 'use a smaller input');
		}
	}
	return Buffer.concat(chunks);
}

/** A file that is read piece by piece; `size` in bytes, null where it is not known. */
export type Input = {readonly chunks: AsyncIterable<Buffer>; readonly size: number | null; close(): Promise<void>};

/** As `readInput`, for what does not fit into memory. The caller closes it. */
export async function openInput(name: string): Promise<Input> {
	if (name === '-') {
		return {chunks: process.stdin, size: null, close: async () => undefined};
	}
	try {
		const {file, size} = await openRegular(name, 'follow');
		return {chunks: file.createReadStream({autoClose: false}), size, close: () => file.close()};
	} catch (error) {
		throw inputFault(error, name);
	}
}

/** Why a file that the command line names cannot be read: bad data (65) where it is missing, no file or too large. */
export function inputFault(
	error: unknown,
	name: string,
	fix = 'name a regular file, or pipe the data in and name -',
): unknown {
	if (error instanceof RefusedFileError) {
		return new CliError('data', error.message, fix);
	}
	const code = (error as NodeJS.ErrnoException).code;
	return code === 'ENOENT' || code === 'ENOTDIR'
		? new CliError('data', `there is no file ${name}`, 'name an existing file')
		: error;
}

/** The variables of a template: a JSON object in a file. */
export async function readVariables(name: string): Promise<Record<string, unknown>> {
	const text = utf8Text(await readInput(name));
	let value: unknown;
	try {
		value = parseExact(text);
	} catch (error) {
		throw new CliError('data', `${name} is not JSON (${(error as Error).message})`, 'correct it');
	}
	if (typeof value !== 'object' || value === null || Array.isArray(value)) {
		throw new CliError('data', `${name} is not a JSON object`, 'put the variables into {…}');
	}
	return value as Record<string, unknown>;
}

import {parseExact} from '../kit/exact-json.ts';
import {openRegular, RefusedFileError, readRegular} from '../kit/regular-file.ts';
import {utf8Text} from '../kit/text.ts';
import {CliError} from './fault.ts';

/** The limit for files that are read into memory (variables, attachments, messages), which are never larger. */
const maxOctets = 32 * 1024 ** 2;

/** Reads the named file, or standard input for `-`. Throws a data error (65) if it is missing or too large. */
export async function readInput(name: string): Promise<Buffer> {
	if (name === '-') {
		return await readStandardInput();
	}
	try {
		return await readRegular(name, maxOctets, 'follow');
	} catch (error) {
		throw inputProblem(error, name);
	}
}

/** Returns the value of an option. `-` reads it from standard input, which keeps a secret out of the process list. */
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

/** A file that is read in chunks; `size` is in bytes, or `null` if unknown. */
export type Input = {readonly chunks: AsyncIterable<Buffer>; readonly size: number | null; close(): Promise<void>};

/** Like `readInput`, for files that may not fit into memory. The caller closes it. */
export async function openInput(name: string): Promise<Input> {
	if (name === '-') {
		return {chunks: process.stdin, size: null, close: async () => undefined};
	}
	try {
		const {file, size} = await openRegular(name, 'follow');
		return {chunks: file.createReadStream({autoClose: false}), size, close: () => file.close()};
	} catch (error) {
		throw inputProblem(error, name);
	}
}

/** Converts the error of reading a named file: a data error (65) if it is missing, too large or not regular. */
export function inputProblem(
	error: unknown,
	name: string,
	fix = 'name a regular file, or pipe the data in and use -',
): unknown {
	if (error instanceof RefusedFileError) {
		return new CliError('data', error.message, fix);
	}
	const code = (error as NodeJS.ErrnoException).code;
	return code === 'ENOENT' || code === 'ENOTDIR'
		? new CliError('data', `${name} does not exist`, 'name an existing file')
		: error;
}

/** Reads the variables of a template from a JSON object in a file. */
export async function readVariables(name: string): Promise<Record<string, unknown>> {
	const text = utf8Text(await readInput(name));
	let value: unknown;
	try {
		value = parseExact(text);
	} catch (error) {
		throw new CliError('data', `${name} is not JSON (${(error as Error).message})`, 'fix it');
	}
	if (typeof value !== 'object' || value === null || Array.isArray(value)) {
		throw new CliError('data', `${name} is not a JSON object`, 'put the variables into {…}');
	}
	return value as Record<string, unknown>;
}

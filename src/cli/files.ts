import {open, readFile} from 'node:fs/promises';
import {buffer} from 'node:stream/consumers';
import {CliError} from './fault.ts';

/** A file that the command line names; `-` is standard input. Bad data (65) where there is none. */
export async function readInput(name: string): Promise<Buffer> {
	try {
		return name === '-' ? await buffer(process.stdin) : await readFile(name);
	} catch (error) {
		throw asMissing(error, name);
	}
}

/** A file that is read piece by piece; `size` in bytes, null where it is not known. */
export type Input = {readonly chunks: AsyncIterable<Buffer>; readonly size: number | null};

/** As `readInput`, for what does not fit into memory. */
export async function openInput(name: string): Promise<Input> {
	if (name === '-') {
		return {chunks: process.stdin, size: null};
	}
	try {
		const file = await open(name);
		const stat = await file.stat();
		if (stat.isDirectory()) {
			await file.close();
			throw Object.assign(new Error(`${name} is a folder`), {code: 'EISDIR'});
		}
		return {chunks: file.createReadStream(), size: stat.isFile() ? stat.size : null};
	} catch (error) {
		throw asMissing(error, name);
	}
}

function asMissing(error: unknown, name: string): unknown {
	const code = (error as NodeJS.ErrnoException).code;
	return code === 'ENOENT' || code === 'EISDIR' || code === 'ENOTDIR'
		? new CliError('data', `there is no file ${name}`, 'name an existing file')
		: error;
}

/** The variables of a template: a JSON object in a file. */
export async function readVariables(name: string): Promise<Record<string, unknown>> {
	const text = (await readInput(name)).toString('utf8');
	let value: unknown;
	try {
		value = JSON.parse(text);
	} catch (error) {
		throw new CliError('data', `${name} is not JSON (${(error as Error).message})`, 'correct it');
	}
	if (typeof value !== 'object' || value === null || Array.isArray(value)) {
		throw new CliError('data', `${name} is not a JSON object`, 'put the variables into {…}');
	}
	return value as Record<string, unknown>;
}

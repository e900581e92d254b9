import {readFile} from 'node:fs/promises';
import {buffer} from 'node:stream/consumers';
import {CliError} from './fault.ts';

/** A file that the command line names; `-` is standard input. Bad data (65) where there is none. */
export async function readInput(name: string): Promise<Buffer> {
	try {
		return name === '-' ? await buffer(process.stdin) : await readFile(name);
	} catch (error) {
		const code = (error as NodeJS.ErrnoException).code;
		if (code === 'ENOENT' || code === 'EISDIR' || code === 'ENOTDIR') {
			throw new CliError('data', `there is no file ${name}`, 'name an existing file');
		}
		throw error;
	}
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

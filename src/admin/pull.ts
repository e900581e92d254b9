import {constants} from 'node:fs';
import {lstat, mkdir, readdir, rm, writeFile} from 'node:fs/promises';
import path from 'node:path';
import {RefusedFileError, readRegular} from '../mail/regular-file.ts';
import {isTemplateFile, readTemplateFolder, templateFileName} from '../render/folder.ts';
import {folderFiles} from '../render/folder-files.ts';
import {longestSource} from '../render/limits.ts';

/** What a pull does to one file of a template's folder. */
export type FileChange = {
	/** Its name in the folder. */
	readonly file: string;
	readonly change: 'none' | 'written' | 'replaced' | 'removed';
};

type Step = FileChange & {readonly text: string};

export type Plan = {readonly folder: string; readonly steps: readonly Step[]};

/** Why a template of this name cannot be pulled (a clause), null: it can. */
export function folderNameFault(name: string): string | null {
	const unfit = name.includes('/') || name === '.' || name === '..' || Buffer.byteLength(name) > 255;
	return unfit ? 'cannot be the name of a folder' : null;
}

/**
 * What makes a folder read as these files (`folderFiles`). Files that say the same already stay as they are, also where
 * their author put them down in another way; files that are no part of a template are left alone. Nothing is changed yet.
 */
export async function planPull(folder: string, files: ReadonlyMap<string, string>): Promise<Plan> {
	const there = await existing(folder);
	const steps: Step[] = [];
	for (const [name, text] of files) {
		const found = there.get(name);
		there.delete(name);
		const change = found === undefined ? 'written' : found.text === text ? 'none' : 'replaced';
		steps.push({file: found?.file ?? name, change, text});
	}
	for (const {file} of there.values()) {
		steps.push({file, change: 'removed', text: ''});
	}
	return {folder, steps: steps.sort((a, b) => (a.file < b.file ? -1 : 1))};
}

/** Never through a link. */
const overwrite = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;

/** Carries a plan out. */
export async function carryOut({folder, steps}: Plan): Promise<void> {
	await mkdir(folder, {recursive: true});
	for (const {file, change, text} of steps) {
		if (change === 'removed') {
			await rm(path.join(folder, file));
		} else if (change !== 'none') {
			await writeFile(path.join(folder, file), text, {flag: overwrite});
		}
	}
}

/** The folder's files that concern us, by the name that `folderFiles` gives them. */
async function existing(folder: string): Promise<Map<string, {readonly file: string; readonly text: string}>> {
	const found = await lstat(folder).catch((error: NodeJS.ErrnoException) => {
		if (error.code === 'ENOENT') {
			return null;
		}
		throw error;
	});
	if (found?.isSymbolicLink()) {
		throw new RefusedFileError(folder, 'is a symbolic link, not a folder');
	}
	const names = found ? await readdir(folder) : [];
	const there = new Map<string, {file: string; text: string}>();
	for (const file of names.filter(isTemplateFile).sort()) {
		const name = templateFileName(file);
		const text = (await readRegular(path.join(folder, file), longestSource, 'refuse')).toString('utf8');
		// Of two spellings of one language the second keeps its own name, as a file that has no place.
		there.set(there.has(name) ? file : name, {file, text});
	}

	// Settings say the same in many ways.
	const settings = there.get('template.json');
	const read = settings ? await readTemplateFolder(folder) : undefined;
	if (settings && read?.ok) {
		settings.text = folderFiles(read.variants, read.sample).get('template.json') ?? '';
	}
	return there;
}

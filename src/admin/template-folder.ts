import {constants} from 'node:fs';
import {lstat, mkdir, readdir, rm, writeFile} from 'node:fs/promises';
import path from 'node:path';
import {RefusedFileError, readRegular} from '../kit/regular-file.ts';
import {labelFault, utf8Text} from '../kit/text.ts';
import type {VariantSource} from '../render/compile.ts';
import {folderFiles, isTemplateFile, readTemplateFolder, templateFileName} from '../render/folder.ts';
import {compileInWorker, usualCompileTime} from '../render/in-worker.ts';
import {longestSource} from '../render/limits.ts';
import type {Violation} from '../render/liquid-source.ts';
import type {TemplateSettings, TemplateVariant} from '../store/templates.ts';
import {type Content, type Named, storedVariant} from './templates.ts';

/** A template as its folder says, compiled and ready to be saved. */
export type ReadyTemplate = Content & Named & {readonly settings: TemplateSettings};

export type ReadyFolder =
	| {readonly ok: true; readonly templates: readonly ReadyTemplate[]}
	/** Every problem of every template: `receipt/body.mjml:3:5: …`. */
	| {readonly ok: false; readonly problems: readonly string[]};

type Source = Named & {
	readonly settings: TemplateSettings;
	readonly variants: readonly VariantSource[];
	readonly sample: string | null;
};

/** Reads and compiles a template folder, or a folder of template folders (those with a template.json). */
export async function readTemplates(folder: string): Promise<ReadyFolder> {
	const problems: string[] = [];
	const sources: Source[] = [];
	for (const each of await templateFolders(folder)) {
		const read = await readTemplateFolder(each);
		const name = path.basename(path.resolve(each));
		const fault = labelFault(name);
		if (fault !== null) {
			problems.push(`${name}: the folder's name is the template's and ${fault}`);
		}
		if (read.ok) {
			const other = sources.find(({id}) => id !== null && id === read.id);
			if (other) {
				problems.push(`${path.join(name, 'template.json')}: its id is that of ${other.name} too`);
			}
			sources.push(read);
		} else {
			problems.push(...read.problems.map(problem => `${path.join(name, problem.file)}: ${problem.message}`));
		}
	}

	// All in one thread: loading MJML is most of the time.
	const results = await compileAll(sources.flatMap(({variants}) => variants));
	const templates = sources.map(({id, name, variants, settings, sample}) => {
		const ready: TemplateVariant[] = [];
		for (const variant of variants) {
			const result = results.get(variant);
			if (result?.ok) {
				ready.push(storedVariant(variant, result));
			} else {
				problems.push(...(result?.violations ?? []).map(each => place(name, variant, each)));
			}
		}
		return {id, name, variants: ready, settings, sample};
	});
	return problems.length > 0 ? {ok: false, problems} : {ok: true, templates};
}

async function templateFolders(folder: string): Promise<string[]> {
	const entries = await readdir(folder, {withFileTypes: true});
	if (entries.some(({name}) => name === 'template.json')) {
		return [folder];
	}
	const found: string[] = [];
	// Links too: `readTemplateFolder` says that they are not read.
	const folders = entries.filter(entry => entry.isDirectory() || entry.isSymbolicLink());
	for (const {name} of folders.sort((a, b) => (a.name < b.name ? -1 : 1))) {
		const files = await readdir(path.join(folder, name)).catch(nothingIn);
		if (files.includes('template.json')) {
			found.push(path.join(folder, name));
		}
	}
	return found;
}

/** A link may point to a file, or nowhere. */
function nothingIn(error: NodeJS.ErrnoException): string[] {
	if (error.code === 'ENOTDIR' || error.code === 'ENOENT' || error.code === 'ELOOP') {
		return [];
	}
	throw error;
}

async function compileAll(variants: readonly VariantSource[]) {
	const results = variants.length > 0 ? await compileInWorker(variants, compileTime(variants.length)) : [];
	return new Map(variants.map((variant, index) => [variant, results[index]]));
}

// A little more for each variant: what a hostile one may take must not fail a folder of many.
function compileTime(variants: number): number {
	return usualCompileTime + 500 * variants;
}

function place(template: string, {locale}: VariantSource, {field, message, line, column}: Violation): string {
	if (field === 'subject') {
		return `${path.join(template, 'template.json')}: subject${locale ? ` of ${locale}` : ''}, column ${column}: ${message}`;
	}
	const file = `body${locale ? `.${locale}` : ''}.${field === 'text' ? 'txt' : field}`;
	return `${path.join(template, file)}:${line}:${column}: ${message}`;
}

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
 * their author put them down in another way; files that are no part of a template stay. Nothing is changed yet.
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
		const text = utf8Text(await readRegular(path.join(folder, file), longestSource, 'refuse'));
		// Of two spellings of one language the second keeps its own name, as a file that has no place.
		there.set(there.has(name) ? file : name, {file, text});
	}

	// Settings say the same in many ways.
	const settings = there.get('template.json');
	const read = settings ? await readTemplateFolder(folder) : undefined;
	if (settings && read?.ok) {
		settings.text = folderFiles(read).get('template.json') ?? '';
	}
	return there;
}

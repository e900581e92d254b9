import {constants} from 'node:fs';
import {lstat, mkdir, readdir, rm, writeFile} from 'node:fs/promises';
import path from 'node:path';
import {
	folderFiles,
	isTemplateFile,
	readLayouts,
	readTemplateFolder,
	templateFileName,
} from '../../compose/render/folder.ts';
import type {Layout} from '../../compose/render/layouts.ts';
import {maxSourceLength} from '../../compose/render/limits.ts';
import {RefusedFileError, readRegular} from '../../kit/regular-file.ts';
import {labelProblem, utf8Text} from '../../kit/text.ts';
import {type Change, emptySnapshot, planChange, type Source} from './layouts.ts';

/** The change that saves a folder of templates, or its problems. */
export type ReadyFolder =
	| {readonly ok: true; readonly change: Change}
	/** All problems of all templates: `receipt/body.mjml:3:5: …`. */
	| {readonly ok: false; readonly problems: readonly string[]};

/**
 * Reads and compiles a template folder, or a folder of template folders (those with a template.json) with its
 * `_layouts` and `_partials`. Templates can also use the stored layouts and partials, and stored templates that use a
 * changed one are compiled again.
 */
export async function readTemplates(folder: string, known = emptySnapshot): Promise<ReadyFolder> {
	const problems: string[] = [];
	const sources: Source[] = [];
	const {layouts, problems: layoutProblems} = await readLayouts(folder);
	problems.push(...layoutProblems.map(({file, message}) => `${file}: ${message}`));
	for (const templateFolder of await findTemplateFolders(folder)) {
		const read = await readTemplateFolder(templateFolder);
		const name = path.basename(path.resolve(templateFolder));
		const nameProblem = labelProblem(name);
		if (nameProblem !== null) {
			problems.push(`${name}: the folder name, which is the template name, ${nameProblem}`);
		}
		if (read.ok) {
			const other = sources.find(({id}) => id !== null && id === read.id);
			if (other) {
				problems.push(`${path.join(name, 'template.json')}: its id is also that of ${other.name}`);
			}
			sources.push({...read, variants: read.variants.map(variant => ({...variant, layout: read.layout}))});
		} else {
			problems.push(...read.problems.map(problem => `${path.join(name, problem.file)}: ${problem.message}`));
		}
	}

	const planned = await planChange(known, layouts, sources);
	if (planned.ok && problems.length === 0) {
		return planned;
	}
	return {ok: false, problems: [...problems, ...(planned.ok ? [] : planned.problems)]};
}

async function findTemplateFolders(folder: string): Promise<string[]> {
	const entries = await readdir(folder, {withFileTypes: true});
	if (entries.some(({name}) => name === 'template.json')) {
		return [folder];
	}
	const paths: string[] = [];
	// Includes symbolic links, so that `readTemplateFolder` reports that they are not followed.
	const folders = entries.filter(entry => entry.isDirectory() || entry.isSymbolicLink());
	for (const {name} of folders.sort((a, b) => (a.name < b.name ? -1 : 1))) {
		const files = await readdir(path.join(folder, name)).catch(emptyIfNoFolder);
		if (files.includes('template.json')) {
			paths.push(path.join(folder, name));
		}
	}
	return paths;
}

/** Returns an empty list for symbolic links that are broken or point to a file. */
function emptyIfNoFolder(error: NodeJS.ErrnoException): string[] {
	if (error.code === 'ENOTDIR' || error.code === 'ENOENT' || error.code === 'ELOOP') {
		return [];
	}
	throw error;
}

/** The effect of a pull on one file of a template folder. */
export type FileChange = {
	readonly file: string;
	readonly change: 'none' | 'written' | 'replaced' | 'removed';
};

type Step = FileChange & {readonly text: string};

export type Plan = {readonly folder: string; readonly steps: readonly Step[]};

/** Returns why a template of this name cannot be pulled, as a clause, or `null`. */
export function folderNameProblem(name: string): string | null {
	const isInvalid = name.includes('/') || name === '.' || name === '..' || Buffer.byteLength(name) > 255;
	return isInvalid ? 'cannot be the name of a folder' : null;
}

/**
 * Plans the changes that give a folder the contents of `files` (see `folderFiles`). Files that are already equivalent
 * keep their author's formatting, and files that are not part of a template are left alone. Changes nothing yet.
 */
export async function planPull(
	folder: string,
	files: ReadonlyMap<string, string>,
	isRelevant = isTemplateFile,
): Promise<Plan> {
	const existing = await readExisting(folder, isRelevant);
	const steps: Step[] = [];
	for (const [name, text] of files) {
		const current = existing.get(name);
		existing.delete(name);
		const change = current === undefined ? 'written' : current.text === text ? 'none' : 'replaced';
		steps.push({file: current?.file ?? name, change, text});
	}
	for (const {file} of existing.values()) {
		steps.push({file, change: 'removed', text: ''});
	}
	return {folder, steps: steps.sort((a, b) => (a.file < b.file ? -1 : 1))};
}

/** Plans changes to the layouts and partials beside the template folders. Those found only there are left alone. */
export async function planLayouts(folder: string, layouts: readonly Layout[]): Promise<Plan[]> {
	const plans: Plan[] = [];
	for (const {name, files} of layouts.filter(({kind}) => kind === 'layout')) {
		plans.push(await planPull(path.join(folder, '_layouts', name), new Map(Object.entries(files))));
	}
	const partials = new Map(layouts.flatMap(({kind, files}) => (kind === 'partial' ? Object.entries(files) : [])));
	if (partials.size > 0) {
		plans.push(await planPull(path.join(folder, '_partials'), partials, file => partials.has(file)));
	}
	return plans;
}

/** O_NOFOLLOW, so that a symbolic link never redirects a write. */
const overwrite = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;

/** Applies a plan. */
export async function applyPlan({folder, steps}: Plan): Promise<void> {
	await mkdir(folder, {recursive: true});
	for (const {file, change, text} of steps) {
		if (change === 'removed') {
			await rm(path.join(folder, file));
		} else if (change !== 'none') {
			await writeFile(path.join(folder, file), text, {flag: overwrite});
		}
	}
}

/** Reads the relevant files of a folder, keyed by the names that `folderFiles` gives them. */
async function readExisting(folder: string, isRelevant: (file: string) => boolean) {
	const stats = await lstat(folder).catch((error: NodeJS.ErrnoException) => {
		if (error.code === 'ENOENT') {
			return null;
		}
		throw error;
	});
	if (stats?.isSymbolicLink()) {
		throw new RefusedFileError(folder, 'is a symbolic link, not a folder');
	}
	const names = stats ? await readdir(folder) : [];
	const existing = new Map<string, {file: string; text: string}>();
	for (const file of names.filter(isRelevant).sort()) {
		const name = templateFileName(file);
		const text = utf8Text(await readRegular(path.join(folder, file), maxSourceLength, 'refuse'));
		// If two file names spell the same language differently, the second keeps its own name, which no template has.
		existing.set(existing.has(name) ? file : name, {file, text});
	}

	// The same settings can be written in many ways, so compare them in normalized form.
	const settings = existing.get('template.json');
	const read = settings ? await readTemplateFolder(folder) : undefined;
	if (settings && read?.ok) {
		settings.text = folderFiles(read).get('template.json') ?? '';
	}
	return existing;
}

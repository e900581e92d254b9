import {readdir} from 'node:fs/promises';
import path from 'node:path';
import {labelFault} from '../mail/label.ts';
import type {VariantSource} from '../render/compile.ts';
import {compileInWorker, usualCompileTime} from '../render/compile-in-worker.ts';
import {readTemplateFolder} from '../render/folder.ts';
import type {Violation} from '../render/violation.ts';
import type {TemplateVariant} from '../store/templates.ts';
import type {Content} from './templates.ts';
import {storedVariant} from './variants.ts';

/** A template as its folder says, compiled and ready to be saved. */
export type ReadyTemplate = Content & {readonly name: string};

export type ReadyFolder =
	| {readonly ok: true; readonly templates: readonly ReadyTemplate[]}
	/** Every problem of every template: `receipt/body.mjml:3:5: …`. */
	| {readonly ok: false; readonly problems: readonly string[]};

type Source = {readonly name: string; readonly variants: readonly VariantSource[]; readonly sample: string | null};

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
			sources.push(read);
		} else {
			problems.push(...read.problems.map(problem => `${path.join(name, problem.file)}: ${problem.message}`));
		}
	}

	// All in one thread: loading MJML is most of the time.
	const results = await compileAll(sources.flatMap(({variants}) => variants));
	const templates = sources.map(({name, variants, sample}) => {
		const ready: TemplateVariant[] = [];
		for (const variant of variants) {
			const result = results.get(variant);
			if (result?.ok) {
				ready.push(storedVariant(variant, result));
			} else {
				problems.push(...(result?.violations ?? []).map(each => place(name, variant, each)));
			}
		}
		return {name, variants: ready, sample};
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

/** A link may lead to a file, or nowhere. */
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

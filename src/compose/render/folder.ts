import {lstat, readdir} from 'node:fs/promises';
import path from 'node:path';
import {present} from '../../kit/collections.ts';
import {isObject, type JsonObject} from '../../kit/exact-json.ts';
import {RefusedFileError, readRegular} from '../../kit/regular-file.ts';
import {isTemplateId, templateIdForm} from '../../mail/ids.ts';
import {isTopicCode, isVariableName, type Priority, priorities} from '../../mail/message.ts';
import type {VariantSource} from './compile.ts';
import type {Layout} from './layouts.ts';
import {maxSourceLength} from './limits.ts';
import {validLocale} from './locale.ts';

/** The settings in template.json. Saving the template checks that the topic exists. */
type FolderSettings = {
	readonly topic: string | null;
	readonly priority: Priority | null;
	readonly sensitive: readonly string[];
};

type FolderProblem = {readonly file: string; readonly message: string};

/** The contents of a template folder. */
type FolderContent = {
	/** The id in template.json, if any. */
	readonly id: string | null;
	/** The name of its layout, if any. */
	readonly layout: string | null;
	/** The default variant first, then by locale. */
	readonly variants: readonly VariantSource[];
	/** The settings in template.json, or the defaults of those that are absent. */
	readonly settings: FolderSettings;
	/** Variables for previews: the text of sample.json, a JSON object; `null` if the file does not exist. */
	readonly sample: string | null;
};

type TemplateFolder =
	| ({
			readonly ok: true;
			/** The name of the folder. */
			readonly name: string;
	  } & FolderContent)
	| {readonly ok: false; readonly problems: readonly FolderProblem[]};

const bodyName = /^body(?:\.([^.]+))?\.(mjml|html|txt)$/;

/** Whether a file in a template folder is part of the template. Other files are ignored. */
export function isTemplateFile(name: string): boolean {
	return name === 'template.json' || name === 'sample.json' || bodyName.test(name);
}

/** Returns a file name with its language tag in canonical spelling. */
export function templateFileName(name: string): string {
	const [, tag, ending] = bodyName.exec(name) ?? [];
	const locale = tag === undefined ? null : validLocale(tag);
	return locale === null ? name : `body.${locale}.${ending}`;
}

/** Reads a template folder and reports all its problems. Other files are ignored. */
export async function readTemplateFolder(folder: string): Promise<TemplateFolder> {
	const problems: FolderProblem[] = [];
	const files = await textFiles(folder, problems);
	const settings = parseObject('template.json', files.get('template.json') ?? null, problems);
	const sample = files.get('sample.json') ?? null;
	parseObject('sample.json', sample, problems);
	const bodies = bodiesByLocale(files, problems);
	const {id, layout, topic, priority, sensitive, ...texts} = settings ?? {};
	const subjects = readSubjects(settings && texts, bodies, problems);
	if (id !== undefined && !(typeof id === 'string' && isTemplateId(id))) {
		problems.push({file: 'template.json', message: `id must be ${templateIdForm}`});
	}

	const folderSettings = readSettings({topic, priority, sensitive}, problems);
	if (layout !== undefined && typeof layout !== 'string') {
		problems.push({file: 'template.json', message: 'layout must be the name of a layout'});
	}

	const variants: VariantSource[] = [];
	for (const [locale, body] of [...bodies].sort(([a], [b]) => (a < b ? -1 : 1))) {
		const name = locale === '' ? 'body' : `body.${locale}`;
		const subject = subjects.get(locale) ?? subjects.get('');
		if ((body.mjml === undefined) === (body.html === undefined)) {
			const message =
				body.mjml === undefined ? 'has no matching .mjml or .html file' : 'use either .mjml or .html, not both';
			problems.push({file: body.mjml === undefined ? `${name}.txt` : `${name}.html`, message});
		} else if (subject !== undefined) {
			variants.push({locale: locale === '' ? null : locale, subject, ...body});
		} else if (settings) {
			problems.push({file: 'template.json', message: `has no subject for ${name}`});
		}
	}

	if (problems.length > 0) {
		return {ok: false, problems};
	}
	return {
		ok: true,
		name: path.basename(path.resolve(folder)),
		id: id === undefined ? null : String(id),
		settings: folderSettings,
		layout: layout === undefined ? null : String(layout),
		variants,
		sample,
	};
}

/**
 * Returns the sorted names in a folder, or `null` after adding a problem if it cannot be read. With `isOptional`, a
 * missing folder counts as empty.
 */
async function namesIn(folder: string, problems: FolderProblem[], isOptional = false): Promise<string[] | null> {
	try {
		if ((await lstat(folder)).isSymbolicLink()) {
			throw new RefusedFileError(folder, 'is a symbolic link, not a folder');
		}
		return (await readdir(folder)).sort();
	} catch (error) {
		if (isOptional && (error as NodeJS.ErrnoException).code === 'ENOENT') {
			return [];
		}
		problems.push({file: folder, message: toReason(error)});
		return null;
	}
}

/**
 * Reads the layouts and partials in a folder of templates: `_layouts/NAME/body.mjml`, `_partials/NAME.liquid`. Other
 * files are ignored.
 */
export async function readLayouts(folder: string): Promise<{layouts: Layout[]; problems: FolderProblem[]}> {
	const problems: FolderProblem[] = [];
	const layouts: Layout[] = [];
	const readFiles = async (kind: Layout['kind'], name: string, subfolder: string, names: readonly string[]) => {
		const fileProblems: FolderProblem[] = [];
		const files: Record<string, string> = {};
		for (const file of names) {
			files[templateFileName(file)] = (await textFile(path.join(folder, subfolder), file, fileProblems)) ?? '';
		}
		layouts.push({kind, name, files});
		problems.push(...fileProblems.map(({file, message}) => ({file: path.join(subfolder, file), message})));
	};
	for (const name of (await namesIn(path.join(folder, '_layouts'), problems, true)) ?? []) {
		const subfolder = path.join('_layouts', name);
		const names = (await namesIn(path.join(folder, subfolder), problems)) ?? [];
		await readFiles(
			'layout',
			name,
			subfolder,
			names.filter(file => bodyName.test(file)),
		);
	}
	for (const file of (await namesIn(path.join(folder, '_partials'), problems, true)) ?? []) {
		if (file.endsWith('.liquid')) {
			await readFiles('partial', path.basename(file, '.liquid'), '_partials', [file]);
		}
	}
	return {layouts, problems};
}

/** Reads the files of a template. Adds a problem for each one that cannot be read, and maps it to `null`. */
async function textFiles(folder: string, problems: FolderProblem[]): Promise<Map<string, string | null>> {
	const files = new Map<string, string | null>();
	const names = await namesIn(folder, problems);
	if (names === null) {
		return files;
	}

	if (!names.includes('template.json')) {
		problems.push({file: 'template.json', message: 'is missing'});
	}
	if (!names.some(name => bodyName.test(name))) {
		problems.push({file: 'body.mjml', message: 'is missing (or body.html)'});
	}
	for (const name of names) {
		if (isTemplateFile(name)) {
			files.set(name, await textFile(folder, name, problems));
		}
	}
	return files;
}

async function textFile(folder: string, name: string, problems: FolderProblem[]): Promise<string | null> {
	try {
		const bytes = await readRegular(path.join(folder, name), maxSourceLength, 'refuse');
		return new TextDecoder('utf-8', {fatal: true}).decode(bytes);
	} catch (error) {
		problems.push({file: name, message: error instanceof TypeError ? 'is not UTF-8 text' : toReason(error)});
	}
	return null;
}

function parseObject(file: string, text: string | null, problems: FolderProblem[]): JsonObject | null {
	if (text === null) {
		return null; // Reported by the caller.
	}

	try {
		const value: unknown = JSON.parse(text);
		if (isObject(value)) {
			return value;
		}
		problems.push({file, message: 'must be a JSON object'});
	} catch (error) {
		problems.push({file, message: `is not JSON: ${toReason(error)}`});
	}
	return null;
}

type Body = {mjml?: string; html?: string; text?: string};

/** Returns the bodies by canonical locale. The key of the default one is empty. */
function bodiesByLocale(files: ReadonlyMap<string, string | null>, problems: FolderProblem[]): Map<string, Body> {
	const bodies = new Map<string, Body>();
	for (const [file, content] of files) {
		const [, tag, ending] = bodyName.exec(file) ?? [];
		if (ending === undefined || content === null) {
			continue;
		}
		const locale = tag === undefined ? '' : validLocale(tag);
		if (locale === null) {
			problems.push({file, message: `${tag} is not a language tag`});
			continue;
		}
		const body = bodies.get(locale) ?? {};
		const part = ending === 'txt' ? 'text' : (ending as 'mjml' | 'html');
		if (body[part] !== undefined) {
			problems.push({file, message: `is a duplicate: ${tag} is another spelling of the same language tag`});
		}
		body[part] = content;
		bodies.set(locale, body);
	}
	return bodies;
}

function readSettings({topic, priority, sensitive}: JsonObject, problems: FolderProblem[]): FolderSettings {
	const check = (name: string, value: unknown, isValid: boolean, requirement: string) => {
		if (value !== undefined && !isValid) {
			problems.push({file: 'template.json', message: `${name} must be ${requirement}`});
		}
	};
	const isList =
		Array.isArray(sensitive) && sensitive.every(name => typeof name === 'string' && isVariableName(name));
	check('topic', topic, typeof topic === 'string' && isTopicCode(topic), "a topic's code");
	check('priority', priority, (priorities as readonly unknown[]).includes(priority), priorities.join(', '));
	check('sensitive', sensitive, isList, 'a list of names of variables, such as ["code"]');
	return {
		topic: (topic as string | undefined) ?? null,
		priority: (priority as Priority | undefined) ?? null,
		sensitive: isList ? sensitive : [],
	};
}

/** Returns the subjects by canonical locale. The key of the default one is empty. */
function readSubjects(
	settings: JsonObject | null,
	bodies: ReadonlyMap<string, Body>,
	problems: FolderProblem[],
): Map<string, string> {
	const file = 'template.json';
	const byLocale = new Map<string, string>();
	const {subject, subjects, ...unknown} = settings ?? {};
	problems.push(...Object.keys(unknown).map(key => ({file, message: `has an unknown field ${JSON.stringify(key)}`})));
	if (typeof subject === 'string') {
		byLocale.set('', subject);
	} else if (subject !== undefined) {
		problems.push({file, message: 'subject must be text'});
	}

	if (!isObject(subjects)) {
		if (subjects !== undefined) {
			problems.push({file, message: 'subjects must be an object of texts by locale'});
		}
		return byLocale;
	}
	for (const [tag, text] of Object.entries(subjects)) {
		const locale = validLocale(tag);
		if (locale === null || typeof text !== 'string') {
			const message = `subjects.${tag}: ${locale === null ? 'not a language tag' : 'must be text'}`;
			problems.push({file, message});
		} else if (bodies.has(locale)) {
			byLocale.set(locale, text);
		} else {
			problems.push({file, message: `subjects.${tag}: body.${tag}.mjml or body.${tag}.html is missing`});
		}
	}
	return byLocale;
}

function toReason(error: unknown): string {
	if (error instanceof RefusedFileError) {
		return error.why;
	}
	return error instanceof Error ? error.message : String(error);
}

/** Returns the files, by name, that `readTemplateFolder` reads as this content. Only template.json is generated. */
export function folderFiles({id, layout, settings, variants, sample}: FolderContent): Map<string, string> {
	const files = new Map<string, string>();
	const defaultSubject = variants.find(({locale}) => locale === null)?.subject;
	const subjects: Record<string, string> = {};
	for (const {locale, subject, mjml, html, text} of variants) {
		const name = locale === null ? 'body' : `body.${locale}`;
		if (locale !== null && subject !== defaultSubject) {
			subjects[locale] = subject;
		}
		files.set(mjml === undefined ? `${name}.html` : `${name}.mjml`, mjml ?? html ?? '');
		if (text !== undefined) {
			files.set(`${name}.txt`, text);
		}
	}
	const {topic, priority, sensitive} = settings;
	const content = {
		...present({id, layout}),
		subject: defaultSubject,
		...(Object.keys(subjects).length > 0 && {subjects}),
		...present({topic, priority, sensitive}),
	};
	files.set('template.json', `${JSON.stringify(content, undefined, '\t')}\n`);
	if (sample !== null) {
		files.set('sample.json', sample);
	}
	return files;
}

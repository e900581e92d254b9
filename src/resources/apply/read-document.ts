import {type Document, isNode, LineCounter, parseDocument} from 'yaml';
import {listFields, normalized} from '../fields.ts';
import {compileCheck} from '../validate.ts';
import {settingsSchema} from '../workspaces/settings.ts';
import type {Declaration, Problem} from './declaration.ts';
import {
	type DeclaredWorkspace,
	documentSchema,
	documentVersion,
	type Item,
	identityOf,
	itemsOf,
	nouns,
} from './document.ts';

type Path = Problem['path'];

type ReadDocument =
	| {
			readonly ok: true;
			readonly workspaces: readonly DeclaredWorkspace[];
			readonly describe: (problems: readonly Problem[]) => string[];
	  }
	/** The problems with line and field: `line 4: workspaces[0].name is required`. */
	| {readonly ok: false; readonly problems: readonly string[]};

const check = compileCheck(documentSchema);
const settingFields = listFields(settingsSchema);

/** Reads and validates a file in YAML or JSON, as `export` writes it. Does not compare it with the store. */
export function readDocument(text: string): ReadDocument {
	const lines = new LineCounter();
	let document: Document;
	let value: unknown;
	try {
		document = parseDocument(text, {lineCounter: lines, prettyErrors: false, logLevel: 'error'});
		value = document.errors.length > 0 ? null : document.toJS();
	} catch (error) {
		// Thrown for aliases that expand without bound, and for documents that are nested too deeply.
		return {ok: false, problems: [`line 1: ${(error as Error).message}`]};
	}
	if (document.errors.length > 0) {
		return {
			ok: false,
			problems: document.errors.map(({pos, message}) => `line ${lines.linePos(pos[0]).line}: ${message}`),
		};
	}
	const describe = (problems: readonly Problem[]) =>
		problems
			.map(({path, message}) => ({line: findLine(document, lines, path), text: `${formatPath(path)} ${message}`}))
			.toSorted((a, b) => a.line - b.line)
			.map(({line, text}) => `line ${line}: ${text}`);
	// The version is checked first, because a later one may have fields that this version does not know.
	const version = Object(value).version;
	if (Number.isInteger(version) && version !== documentVersion) {
		const message = `is ${version}, but this mailctl reads version ${documentVersion}: use the mailctl that wrote the file, or export a new one`;
		return {ok: false, problems: describe([{path: ['version'], message}])};
	}
	const violations = check(value);
	if (violations.length > 0) {
		return {ok: false, problems: describe(violations.map(({field, message}) => ({path: pathOf(field), message})))};
	}
	const {workspaces} = value as {workspaces: readonly DeclaredWorkspace[]};
	const problems: Problem[] = [];
	const read = workspaces.map((workspace, index) =>
		readWorkspace(workspace, (field, message) => {
			problems.push({path: ['workspaces', index, ...field], message});
		}),
	);
	for (const index of findDuplicates(workspaces.map(({name}) => name))) {
		problems.push({path: ['workspaces', index], message: duplicate});
	}
	return problems.length > 0 ? {ok: false, problems: describe(problems)} : {ok: true, workspaces: read, describe};
}

/** Records the problem of a field. */
type Refuse = (field: Path, message: string) => void;

const duplicate = 'is a duplicate';

/** Returns the indexes of names that already occurred before them. */
function findDuplicates(names: readonly string[]): number[] {
	const seen = new Set<string>();
	return names.flatMap((name, index) => (seen.size === seen.add(name).size ? [index] : []));
}

/** Returns the workspace with every value in its stored form. */
function readWorkspace(workspace: DeclaredWorkspace, refuse: Refuse): DeclaredWorkspace {
	const {settings} = workspace;
	const read = {...workspace, ...(settings && {settings: normalized(settingFields, settings)})};
	for (const noun of nouns) {
		const items = itemsOf(workspace, noun.section)?.map(item => toStored(noun, item));
		Object.assign(read, items && {[noun.section]: items});
	}
	for (const noun of nouns) {
		checkItems(noun, read, refuse);
	}
	return read;
}

/** Returns an item in its stored form. Lists are sorted, since their order has no meaning. The default mode is live. */
function toStored({schema, key}: Declaration, item: Item): Item {
	const entries = Object.entries(normalized(listFields(schema), item));
	const stored = entries.map(([field, value]) => [field, Array.isArray(value) ? value.toSorted() : value]);
	return {...Object.fromEntries(stored), ...(key.includes('mode') && {mode: item.mode ?? 'live'})};
}

/** Checks the items of a noun. If a file declares their parents, it must declare the parent of each item. */
function checkItems(noun: Declaration, read: DeclaredWorkspace, refuse: Refuse): void {
	const {
		section,
		parent,
		isRepeatable,
		key: [main = ''],
	} = noun;
	const items = itemsOf(read, section) ?? [];
	const parents = parent && itemsOf(read, parent.section);
	const names = parents && new Set(parents.map(({name}) => name));
	for (const [index, item] of items.entries()) {
		noun.check?.(item, (field, problem) => problem !== null && refuse([section, index, field], problem));
		const name = parent?.nameOf(item);
		if (names && !names.has(name)) {
			refuse([section, index, main], `requires ${name} in ${parent.section}`);
		}
	}
	const duplicates = isRepeatable ? [] : findDuplicates(items.map(item => identityOf(noun, item)));
	for (const index of duplicates) {
		refuse([section, index], duplicate);
	}
}

/** Splits the name of a field, such as `workspaces[0].keys[1].name`, into its parts. */
function pathOf(field: string): Path {
	return field === 'body'
		? []
		: field.split(/\.|\[(?=\d+\])/).map(part => (/^\d+\]$/.test(part) ? Number.parseInt(part, 10) : part));
}

function formatPath(path: Path): string {
	const text = path.map(part => (typeof part === 'number' ? `[${part}]` : `.${part}`)).join('');
	return text === '' ? 'the document' : text.slice(1);
}

/** Returns the line of the node at a path, or of its nearest existing ancestor. */
function findLine(document: Document, lines: LineCounter, path: Path): number {
	for (let length = path.length; length > 0; length--) {
		const node = document.getIn(path.slice(0, length), true);
		if (isNode(node) && node.range) {
			return lines.linePos(node.range[0]).line;
		}
	}
	return 1;
}

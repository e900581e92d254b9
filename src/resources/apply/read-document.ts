import {type Document, isNode, LineCounter, parseDocument} from 'yaml';
import {parseDomain} from '../../mail/address.ts';
import {returnPathProblem} from '../domains/domains.ts';
import {linkHostProblem} from '../domains/link-host.ts';
import {listFields, normalized} from '../fields.ts';
import {createKey} from '../keys/rules.ts';
import {compileCheck} from '../validate.ts';
import {settingsSchema} from '../workspaces/settings.ts';
import {
	type DeclaredItems,
	type DeclaredWorkspace,
	documentSchema,
	documentVersion,
	domainOf,
	identityOf,
	kinds,
	sections,
} from './document.ts';

/** A problem with a document: the path of a field, and a clause that follows its name. */
export type Problem = {readonly path: Path; readonly message: string};
type Path = ReadonlyArray<string | number>;

type ReadDocument =
	| {
			readonly ok: true;
			readonly workspaces: readonly DeclaredWorkspace[];
			readonly spell: (problems: readonly Problem[]) => string[];
	  }
	/** Each with line and field: `line 4: workspaces[0].name is required`. */
	| {readonly ok: false; readonly problems: readonly string[]};

const check = compileCheck(documentSchema);
const settingFields = listFields(settingsSchema);
const keyItemFields = listFields(createKey.input);

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
	const spell = (problems: readonly Problem[]) =>
		problems
			.map(({path, message}) => ({line: findLine(document, lines, path), text: `${spelled(path)} ${message}`}))
			.toSorted((a, b) => a.line - b.line)
			.map(({line, text}) => `line ${line}: ${text}`);
	// The version is checked first, because a later one may have fields that this version does not know.
	const version = Object(value).version;
	if (Number.isInteger(version) && version !== documentVersion) {
		const message = `is ${version}, but this mailctl reads version ${documentVersion}: use the mailctl that wrote the file, or export a new one`;
		return {ok: false, problems: spell([{path: ['version'], message}])};
	}
	const violations = check(value);
	if (violations.length > 0) {
		return {ok: false, problems: spell(violations.map(({field, message}) => ({path: pathOf(field), message})))};
	}
	const {workspaces} = value as {workspaces: readonly DeclaredWorkspace[]};
	const problems: Problem[] = [];
	const read = workspaces.map((workspace, index) =>
		readWorkspace(workspace, (field, message) => {
			problems.push({path: ['workspaces', index, ...field], message});
			return '';
		}),
	);
	problems.push(...twice(workspaces.map(({name}) => name)).map(n => ({path: ['workspaces', n], message: again})));
	return problems.length > 0 ? {ok: false, problems: spell(problems)} : {ok: true, workspaces: read, spell};
}

/** Records the problem of a field. The returned string stands in for its value, which is never used. */
type Refuse = (field: Path, message: string) => string;

const again = 'is a duplicate';

function twice(names: readonly string[]): number[] {
	const seen = new Set<string>();
	return names.flatMap((name, index) => (seen.size === seen.add(name).size ? [index] : []));
}

/** Returns the workspace with every value in its stored form. */
function readWorkspace(workspace: DeclaredWorkspace, refuse: Refuse): DeclaredWorkspace {
	const {settings, domains, senders, webhooks, keys} = workspace;
	const read: DeclaredWorkspace = {
		...workspace,
		...(settings && {settings: normalized(settingFields, settings)}),
		...(domains && {domains: domains.map((item, n) => readDomain(item, ['domains', n], refuse))}),
		...(webhooks && {
			webhooks: webhooks.map(item => ({...item, mode: item.mode ?? 'live', events: item.events.toSorted()})),
		}),
		...(keys && {keys: keys.map(readKey)}),
	};
	// The same URL may be registered several times.
	for (const kind of kinds.filter(each => each !== 'webhook')) {
		const items = (read[sections[kind]] ?? []) as ReadonlyArray<DeclaredItems[typeof kind]>;
		for (const index of twice(items.map(item => identityOf(kind, item)))) {
			refuse([sections[kind], index], again);
		}
	}
	const known = read.domains && new Set(read.domains.map(({name}) => name));
	for (const [index, {address}] of (senders ?? []).entries()) {
		const domain = domainOf(address);
		if (known && !known.has(domain)) {
			refuse(['senders', index, 'address'], `requires ${domain} in domains`);
		}
	}
	return read;
}

const domainForm = 'must be a full name such as shop.example';

function readDomain(item: DeclaredItems['domain'], path: Path, refuse: Refuse): DeclaredItems['domain'] {
	const name = parseDomain(item.name) ?? refuse([...path, 'name'], domainForm);
	const ownPath = [...path, 'return_path_domain'];
	const returnPath = item.return_path_domain;
	const own = returnPath ? (parseDomain(returnPath) ?? refuse(ownPath, domainForm)) : returnPath;
	const problem = returnPathProblem(name, own ?? null);
	if (problem !== null) {
		refuse(ownPath, problem);
	}
	const linksPath = [...path, 'link_host'];
	const links = item.link_host ? (parseDomain(item.link_host) ?? refuse(linksPath, domainForm)) : item.link_host;
	const linksProblem = linkHostProblem({name, return_path_domain: own ?? null}, links ?? null);
	if (linksProblem !== null) {
		refuse(linksPath, linksProblem);
	}
	return {name, ...(own !== undefined && {return_path_domain: own}), ...(links !== undefined && {link_host: links})};
}

function readKey(item: DeclaredItems['key']): DeclaredItems['key'] {
	const {mode = 'live', scopes} = item;
	return {...normalized(keyItemFields, item), mode, ...(scopes && {scopes: scopes.toSorted()})};
}

/** Splits the name of a field, such as `workspaces[0].keys[1].name`, into its parts. */
function pathOf(field: string): Path {
	return field === 'body'
		? []
		: field.split(/\.|\[(?=\d+\])/).map(part => (/^\d+\]$/.test(part) ? Number.parseInt(part, 10) : part));
}

function spelled(path: Path): string {
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
